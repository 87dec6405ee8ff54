#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/tensor/step_phase.h"

namespace stages {

/// The properties of a CPU on which the tensors of a step depend. The memory of its kernels has
/// bounds that hold for all CPUs (convolution_bound.h, meta_kernels.h).
struct Processor {
  bool bf16 = true;   ///< oneDNN computes convolutions and products of bfloat16; otherwise torch's
                      ///< own loops do
  bool fp16 = false;  ///< the same for float16
  /// oneDNN computes large float32 products (stages/model/linear_layer.h).
  bool onednn_multiplies = false;
  bool operator==(const Processor&) const = default;
};

/// The processor that runs this process. Torch reports which half types it computes.
const Processor& this_processor();

/// Whether oneDNN computes float32 weight gradients only by unfolded images, as it does without
/// AVX2. Determined once per process, from the memory that a small one takes.
bool onednn_unfolds_images();

/// The owner of a storage's memory.
enum class Owner {
  kParameter,
  kGradient,
  kOptimizerState,
  kSavedActivation,
  kBuffer,
  kInput,
  kTransient,
  kMeasured  ///< all else of a step that was measured, not traced
};
/// "parameter", "saved_activation", …
std::string_view name(Owner owner);

/// The device whose kernels a dry run simulates.
struct Backend {
  at::DeviceType device = at::kCPU;
  int threads = 1;         ///< of a CPU
  std::string model = {};  ///< of a GPU, "NVIDIA L4"; may be empty
  Processor processor = this_processor();
  bool unfolds_images = onednn_unfolds_images();  ///< of a CPU
  bool operator==(const Backend&) const = default;
};

/// A storage allocated during a trace.
struct TracedStorage {
  std::int64_t bytes = 0;  ///< as requested
  Owner owner = Owner::kTransient;
  /// The name given to own(). Otherwise its purpose: for a saved activation what saved it, namely
  /// the path of a module or a term of the loss, "loss.covariance"; in a backward pass that of the
  /// matching forward. Empty if unknown.
  std::string name;
  std::string operation;  ///< the outermost one that allocated it: "aten::linear", "AddmmBackward0"
  std::string module;  ///< the path of the module that ran then; empty: none, as in a backward pass
  StepPhase phase = StepPhase::kIdle;
  std::vector<std::int64_t> shape;  ///< of the tensor seen in it; empty if none was
  at::ScalarType dtype = at::kByte;
  bool is_scratch = false;  ///< memory that a kernel may take and frees when it returns: not a
                            ///< tensor of the program
  bool is_cast = false;  ///< a half-precision copy of a weight, which autocast caches for a while
  bool operator==(const TracedStorage&) const = default;
};

struct TraceEvent {
  std::size_t storage;  ///< index into storages()
  bool is_birth;
  StepPhase phase;
  double flops;  ///< of all operations started by then
  bool operator==(const TraceEvent&) const = default;
};

/// Births and deaths of storages in their order.
struct RecordedWork {
  std::vector<TracedStorage> storages;
  std::vector<TraceEvent> events;
};

/// How to treat work that has been shown to repeat itself (stages/plan/repetition.h).
enum class Repeated {
  kNoted,     ///< do not run it again: the trace records a copy of what it recorded
  kComputed,  ///< run it, which gives the same and takes longer
};

/// Records the birth and death of every storage on the Meta device while it lives; none of them has
/// memory:
///
///   register_meta_kernels();
///   MemoryTrace trace({.device = at::kCPU, .threads = 2});
///   const auto network = model.outline(data);
///   for (auto& item : network->named_parameters())
///     trace.own(item.value(), Owner::kParameter, item.key());
///   step(*network);
///   use(trace.events());
///
/// At most one lives in a process, on one thread: it records operations, phases and saved tensors
/// of the thread that made it. It does not know tensors made before it, which may die during the
/// trace; its own tensors may outlive it. Storages of zero bytes are ignored.
class MemoryTrace {
 public:
  /// Throws std::logic_error if another one lives.
  explicit MemoryTrace(Backend backend, Repeated repeated = Repeated::kNoted);
  ~MemoryTrace();
  MemoryTrace(const MemoryTrace&) = delete;
  MemoryTrace& operator=(const MemoryTrace&) = delete;

  /// Says who owns a tensor's storage. The owner counts whenever it is set while the tensor lives.
  void own(const at::Tensor& tensor, Owner owner, std::string name);

  const Backend& backend() const;
  std::vector<TracedStorage> storages() const;
  std::vector<TraceEvent> events() const;
  double flops() const;           ///< so far
  std::int64_t launches() const;  ///< operations started so far, not counting those within others

  class Recorder;

 private:
  const std::shared_ptr<Recorder> recorder_;
};

/// While it lives, storages allocated on the Meta device do not belong to the simulated device, and
/// no trace records them: host memory next to a GPU.
class [[nodiscard]] ScopedUntraced {
 public:
  ScopedUntraced();
  ~ScopedUntraced();
  ScopedUntraced(const ScopedUntraced&) = delete;
  ScopedUntraced& operator=(const ScopedUntraced&) = delete;
};

/// The device whose kernels the living trace simulates; null if there is no trace.
const Backend* traced_backend();
/// Adds a kernel's operations to the living trace, if there is one.
void count_flops(double flops);
/// Tells the living trace, if there is one, that this tensor stands for memory that a kernel may
/// take for itself.
void mark_scratch(const at::Tensor& tensor);
/// Marks the tensor as the gradient of a parameter, which will not be there when the step is
/// computed.
void mark_gradient(const at::Tensor& tensor);
/// Marks the tensor as a cast of a weight that autocast caches.
void mark_cast(const at::Tensor& tensor);

}  // namespace stages
