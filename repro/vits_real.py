import sys, torch, transformers as T, os
if sys.argv[1]=="save":
    c=T.AutoConfig.for_model("vits"); c.architectures=["VitsModel"]; T.VitsModel(c).save_pretrained("vits_real")
else:
    m=T.VitsModel.from_pretrained(sys.argv[1],device_map="auto"); print("loaded",sorted(set(map(str,m.hf_device_map.values()))))

# /// expect
# must = "a cause"
# needs = ["transformers"]
# exit = [0, 1]
# args = ["save"]
# long = true
# ///
