import torch, torchvision
from torchvision.models import detection as D, segmentation as G
for f,s in [(D.fasterrcnn_resnet50_fpn,64),(D.retinanet_resnet50_fpn,64),(D.ssdlite320_mobilenet_v3_large,64),(D.maskrcnn_resnet50_fpn,64),(D.keypointrcnn_resnet50_fpn,64),(D.fcos_resnet50_fpn,64)]:
    try:
        m=f(weights=None,weights_backbone=None,num_classes=3,**({"min_size":64,"max_size":64} if s and "ssd" not in f.__name__ else {})).to("cuda:1").train()
        t=[{"boxes":torch.tensor([[5.,5,40,40]],device="cuda:1"),"labels":torch.ones(1,dtype=torch.long,device="cuda:1"),"masks":torch.ones(1,64,64,dtype=torch.uint8,device="cuda:1"),"keypoints":torch.rand(1,17,3,device="cuda:1")} for _ in range(2)]
        l=m([torch.rand(3,64,64,device="cuda:1") for _ in range(2)],t); sum(l.values()).backward(); m.eval()
        with torch.no_grad(): o=m([torch.rand(3,64,64,device="cuda:1")])
        print("ok  ",f.__name__,o[0]["boxes"].device)
    except BaseException as e: print("FAIL",f.__name__,type(e).__name__,str(e)[:300].replace("\n"," "))
from torchvision import ops
b=torch.rand(8,4,device="cuda:0"); b[:,2:]+=b[:,:2]
for n,fn in [("nms",lambda:ops.nms(b,torch.rand(8,device="cuda:0"),.5)),("batched_nms",lambda:ops.batched_nms(b,torch.rand(8,device="cuda:0"),torch.zeros(8,device="cuda:0"),.5)),("roi_align",lambda:ops.roi_align(torch.rand(1,3,16,16,device="cuda:0"),[b],(2,2))),("roi_pool",lambda:ops.roi_pool(torch.rand(1,3,16,16,device="cuda:0"),[b],(2,2))),("deform",lambda:ops.deform_conv2d(torch.rand(1,3,8,8,device="cuda:0"),torch.rand(1,18,6,6,device="cuda:0"),torch.rand(4,3,3,3,device="cuda:0"))),("ps",lambda:ops.ps_roi_align(torch.rand(1,4,16,16,device="cuda:0"),[b],(2,2))),("mixed nms",lambda:ops.nms(b,torch.rand(8),.5))]:
    try: print("ok  ",n,fn().device)
    except BaseException as e: print("FAIL",n,type(e).__name__,str(e)[:250].replace("\n"," "))
from torchvision.transforms import v2
x=torch.randint(0,255,(3,32,32),dtype=torch.uint8,device="cuda:0"); print(v2.Compose([v2.RandomResizedCrop(16),v2.RandomHorizontalFlip(1.),v2.ColorJitter(.2,.2),v2.GaussianBlur(3),v2.ToDtype(torch.float32,scale=True),v2.Normalize([.5]*3,[.5]*3)])(x).device)

# /// expect
# must = "a library's operator wants one device; the scores on the host are what must move"
# needs = ["torchvision"]
# exit = 1
# findings = [{code = "SD105", op = "torchvision.nms", title = "torchvision.nms wants one device and got tensors on cuda:0 and cpu", fix = 'torch.rand(8, device="cuda:0")'}]
# never = ["FAIL"]
# ///
