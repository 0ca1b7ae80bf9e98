# samedevice with the small build of torch, to run programs that are mounted into /work:
#
#   docker build -t samedevice .
#   docker run --rm -v "$PWD:/work" samedevice run --machine 2x24GB train.py
FROM python:3.12-slim

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

WORKDIR /opt/samedevice
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src/samedevice src/samedevice

# What the program needs besides (transformers, accelerate, ...) goes into an image of its own, FROM this one.
RUN pip install --no-cache-dir --index-url "$TORCH_INDEX" --extra-index-url https://pypi.org/simple \
        --constraint constraints.txt torch \
    && pip install --no-cache-dir --constraint constraints.txt . \
    && useradd --create-home --uid 1000 samedevice

USER 1000
WORKDIR /work
ENTRYPOINT ["samedevice"]
CMD ["--help"]
