import pytorch_kinematics
import torch

torch.set_default_device("cuda:0")
ARM = """
<robot name="arm">
  <link name="base"/> <link name="upper"/> <link name="lower"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/> <child link="upper"/> <origin xyz="0 0 0.1" rpy="0 0.2 0"/> <axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/>
  </joint>
  <joint name="elbow" type="revolute">
    <parent link="upper"/> <child link="lower"/> <origin xyz="0 0 0.3" rpy="0.1 0 0"/> <axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/>
  </joint>
</robot>
"""
arm = pytorch_kinematics.build_serial_chain_from_urdf(ARM, "lower").to(device="cuda:0")
print(arm.forward_kinematics(torch.tensor([[0.1, 0.2], [0.3, -0.4]])).get_matrix()[:, :3, 3])
print("SCENARIO OK")
