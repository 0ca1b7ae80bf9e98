// Two devices of a kind that torch does not know, in host memory: computing as the CPU does, refusing mixed operands as CUDA does.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <set>

namespace {

constexpr c10::DeviceIndex kDevices = 2;
thread_local c10::DeviceIndex current = 0;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device d) const override {
    auto before = getDevice();
    setDevice(d);
    return before;
  }
  c10::Device getDevice() const override { return {type(), current}; }
  void setDevice(c10::Device d) const override { uncheckedSetDevice(d); }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.has_index()) current = d.index();
  }
  c10::Stream getStream(c10::Device d) const override { return c10::Stream(c10::Stream::DEFAULT, d); }
  c10::Stream getNewStream(c10::Device d, int) const override { return c10::Stream(c10::Stream::DEFAULT, d); }
  c10::Stream exchangeStream(c10::Stream s) const override { return c10::Stream(c10::Stream::DEFAULT, s.device()); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(c10::DeviceIndex d) const override { current = d; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex d) const override { return std::exchange(current, d); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex d) const override { return exchangeDevice(d); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto grown = storage.allocator()->allocate(bytes);
    std::memcpy(grown.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(grown));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes ? std::malloc(bytes) : nullptr;
    return {data, data, &std::free, c10::Device(c10::DeviceType::PrivateUse1, current)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};
Memory memory;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &memory);

const bool registered = [] {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> type, std::optional<c10::Layout>, std::optional<c10::Device> device,
                 std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                         std::optional<c10::Device> device, std::optional<bool>) {
  c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(type));
}

// The same memory, as a tensor of the CPU.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return tensor;
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  auto bytes = tensor.storage().nbytes();
  auto kept = tensor.storage();
  auto same = c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                           c10::InefficientStdFunctionContext::makeDataPtr(storage->mutable_data(), [kept](void*) {}, c10::kCPU), nullptr, false);
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(same), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return made;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  on_host(to).copy_(on_host(self));
  return to;
}
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  if (to.sizes() != self.sizes()) to.resize_(self.sizes());
  on_host(to).copy_(on_host(self));
  return to;
}
at::Scalar local_scalar(const at::Tensor& self) { return on_host(self).item(); }

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef size, std::optional<c10::MemoryFormat>) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  auto bytes = static_cast<size_t>(impl->numel() + impl->storage_offset()) * impl->itemsize();
  if (bytes > self.storage().nbytes()) at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
  return self;
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto name = op.schema().name();
  bool indexes = name == "aten::index" || name == "aten::index_put_" || name == "aten::_index_put_impl_";
  std::set<std::string> met;
  auto look = [&](const at::Tensor& t) {
    if (t.defined() && !(t.device().is_cpu() && t.dim() == 0)) met.insert(t.device().str());
  };
  for (const auto& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (value.isTensor()) look(value.toTensor());
    else if (value.isTensorList()) for (const at::Tensor& t : value.toTensorList()) look(t);
    else if (value.isList() && !indexes) for (const c10::IValue& each : value.toListRef()) if (each.isTensor()) look(each.toTensor());
  }
  TORCH_CHECK(met.size() < 2, "Expected all tensors to be on the same device, but found at least two devices, ", *met.begin(), " and ",
              *met.rbegin(), "! (when checking arguments of ", name, ")");
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("resize_", resize);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("set_.source_Storage_storage_offset", [](at::Tensor& self, c10::Storage s, c10::SymInt o, c10::SymIntArrayRef z, c10::SymIntArrayRef t) -> at::Tensor& {
    auto* impl = self.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(std::move(s));
    impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(z), C10_AS_INTARRAYREF_SLOW(t), o.expect_int());
    return self;
  });
}

}  // namespace
