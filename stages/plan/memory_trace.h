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

class RecordedParts;

/// The properties of a CPU that determine the tensors of a step. The memory for kernels has bounds
/// that apply to all CPUs (convolution_bound.h, meta_kernels.h).
struct Processor {
  bool bf16 = true;   ///< oneDNN computes convolutions and products in bfloat16; otherwise torch's
                      ///< own loops do
  bool fp16 = false;  ///< as above, for float16
  /// True if oneDNN computes large float32 products (stages/model/linear_layer.h).
  bool onednn_multiplies = false;
  bool operator==(const Processor&) const = default;
};

/// Returns the processor that runs this process. Torch reports which half-precision types oneDNN
/// supports.
const Processor& this_processor();

/// True if oneDNN always unfolds images for float32 weight gradients, as it does without AVX2.
/// Determined once per process, from the memory that a small weight gradient uses.
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
  kMeasured  ///< all other memory of a step that was measured, not traced
};
/// Returns "parameter", "saved_activation", …
std::string_view name(Owner owner);

/// The device that a dry run simulates.
struct Backend {
  at::DeviceType device = at::kCPU;
  int threads = 1;         ///< CPU threads
  std::string model = {};  ///< GPU model, such as "NVIDIA L4"; may be empty
  Processor processor = this_processor();
  bool unfolds_images = onednn_unfolds_images();  ///< on a CPU
  bool operator==(const Backend&) const = default;
};

/// A storage allocated during a trace.
struct TracedStorage {
  std::int64_t bytes = 0;  ///< as requested
  Owner owner = Owner::kTransient;
  /// The name passed to own(), or the purpose. For a saved activation, the purpose is what saved
  /// it: the path of a module or a term of the loss, such as "loss.covariance". In a backward pass,
  /// it is the purpose of the matching forward operation. Empty if unknown.
  std::string name;
  /// The outermost operation when it was allocated: "aten::linear", "AddmmBackward0".
  std::string operation;
  /// Path of the module that was running at that time; empty: none, as in a backward pass.
  std::string module;
  StepPhase phase = StepPhase::kIdle;
  std::vector<std::int64_t> shape;  ///< shape of a tensor that uses it; empty if unknown
  at::ScalarType dtype = at::kByte;
  bool is_scratch = false;  ///< memory that a kernel may allocate and frees when it returns;
                            ///< not a tensor of the program
  bool is_cast = false;     ///< a half-precision copy of a weight that autocast caches
  bool is_pool = false;     ///< the memory of a CUDA graph; unused segments are returned to
                            ///< the device before it is allocated
  bool operator==(const TracedStorage&) const = default;
};

struct TraceEvent {
  std::size_t storage;  ///< index into storages()
  bool is_birth;
  StepPhase phase;
  double flops;  ///< total over all operations started so far
  bool operator==(const TraceEvent&) const = default;
};

/// Allocations and frees of storages, in order.
struct RecordedWork {
  std::vector<TracedStorage> storages;
  std::vector<TraceEvent> events;
};

/// How to handle repeated work (stages/plan/repetition.h).
enum class Repeated {
  kNoted,     ///< do not run it again; append a copy of its events to the trace
  kComputed,  ///< run it again, which is slower but has the same result
};

/// While this object lives, records when each storage on the Meta device is allocated and freed. No
/// actual memory is allocated:
///
///   register_meta_kernels();
///   MemoryTrace trace({.device = at::kCPU, .threads = 2});
///   const auto network = model.outline(data);
///   for (auto& item : network->named_parameters())
///     trace.own(item.value(), Owner::kParameter, item.key());
///   step(*network);
///   use(trace.events());
///
/// A process may have at most one live trace, on one thread: it records the operations, phases and
/// saved tensors of the thread that created it. Older tensors are not recorded, and may be freed
/// during the trace; recorded tensors may outlive it. Empty storages are ignored.
class MemoryTrace {
 public:
  /// Uses the parts in `parts` (repetition.h) and adds its own; null: starts without any. Throws
  /// std::logic_error if another trace is live.
  explicit MemoryTrace(Backend backend, Repeated repeated = Repeated::kNoted,
                       std::shared_ptr<RecordedParts> parts = nullptr);
  ~MemoryTrace();
  MemoryTrace(const MemoryTrace&) = delete;
  MemoryTrace& operator=(const MemoryTrace&) = delete;

  /// Sets the owner of a tensor's storage for the whole trace; may be called at any time while the
  /// tensor lives.
  void own(const at::Tensor& tensor, Owner owner, std::string name);

  const Backend& backend() const;
  std::vector<TracedStorage> storages() const;
  std::vector<TraceEvent> events() const;
  double flops() const;           ///< number of operations completed so far
  std::int64_t launches() const;  ///< number of operations started so far, not counting nested ones

  /// Ends the trace, as the destructor does, and returns what it recorded; afterward, storages()
  /// and events() are empty.
  RecordedWork finish();

  class Recorder;

 private:
  void end();

  const std::shared_ptr<Recorder> recorder_;
};

/// While this object lives, storages allocated on the Meta device do not belong to the simulated
/// device and are not recorded by any trace. They represent a GPU machine's host memory.
class [[nodiscard]] ScopedUntraced {
 public:
  ScopedUntraced();
  ~ScopedUntraced();
  ScopedUntraced(const ScopedUntraced&) = delete;
  ScopedUntraced& operator=(const ScopedUntraced&) = delete;
};

/// Returns the device that the live trace simulates; null if there is no trace.
const Backend* traced_backend();
/// Adds a kernel's operations to the live trace, if any.
void count_flops(double flops);
/// Marks the tensor, in the live trace if any, as memory that a kernel may allocate for itself.
void mark_scratch(const at::Tensor& tensor);
/// Marks a tensor as the gradient of a parameter. Needed for gradients that are freed before the
/// step ends.
void mark_gradient(const at::Tensor& tensor);
/// Marks a tensor as memory for parameters, called `name` in the trace.
void mark_parameters(const at::Tensor& tensor, const std::string& name);
/// Marks the tensor as a cast of a weight that autocast caches.
void mark_cast(const at::Tensor& tensor);
/// Marks the tensor as the entire memory of a CUDA graph.
void mark_pool(const at::Tensor& tensor);

}  // namespace stages
