import numpy
from pypots.imputation import GPVAE

series = numpy.random.default_rng(0).normal(size=(8, 6, 3))
series[numpy.random.default_rng(1).random(series.shape) < 0.2] = numpy.nan
model = GPVAE(n_steps=6, n_features=3, latent_size=4, encoder_sizes=(8,), decoder_sizes=(8,), window_size=4,
              batch_size=4, epochs=2, device="cuda:0")
model.fit({"X": series})
print(model.impute({"X": series}).shape)
print("SCENARIO OK")
