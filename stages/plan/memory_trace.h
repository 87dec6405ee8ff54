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

/// What the tensors of a step on a CPU depend on. How much memory its kernels take is bounded for
/// all alike (convolution_bound.h, product_bound.h).
struct Processor {
  bool bf16 = true;   ///< oneDNN computes convolutions and products of bfloat16; else loops of
                      ///< torch's own do
  bool fp16 = false;  ///< likewise of float16
  /// Large products of float32 are left to oneDNN (stages/model/linear_layer.h).
  bool onednn_multiplies = false;
  bool operator==(const Processor&) const = default;
};

/// The one that runs this process. Which half types it computes is asked of torch.
const Processor& this_processor();

/// Whether oneDNN computes weights' gradients of float32 by unfolded images alone, as it does
/// without AVX2. Asked of it, once in a process, by what a small one takes.
bool onednn_unfolds_images();

/// Whose memory a storage is.
enum class Owner {
  kParameter,
  kGradient,
  kOptimizerState,
  kSavedActivation,
  kBuffer,
  kInput,
  kTransient
};
/// "parameter", "saved_activation", …
std::string_view name(Owner owner);

/// Whose kernels a dry run stands in for.
struct Backend {
  at::DeviceType device = at::kCPU;
  int threads = 1;         ///< of a CPU
  std::string model = {};  ///< of a GPU, "NVIDIA L4"; may be empty
  Processor processor = this_processor();
  bool unfolds_images = onednn_unfolds_images();  ///< of a CPU
  bool operator==(const Backend&) const = default;
};

/// A storage that was born during a trace.
struct TracedStorage {
  std::int64_t bytes = 0;  ///< as asked for
  Owner owner = Owner::kTransient;
  /// As own() said; or what it was made for, of a saved activation what saved it: the path of a
  /// module, a term of the loss, "loss.covariance", or in a backward pass those of its forward.
  /// Empty where nothing says so.
  std::string name;
  std::string operation;  ///< in which it was born, the outermost: "aten::linear", "AddmmBackward0"
  std::string module;  ///< the path of the module that ran then; empty: none, as in a backward pass
  StepPhase phase = StepPhase::kIdle;
  std::vector<std::int64_t> shape;  ///< of the tensor that was seen in it; empty where none was
  at::ScalarType dtype = at::kByte;
  bool is_scratch =
      false;  ///< what a kernel may take and gives back when it returns: no tensor of the program
  bool is_cast = false;  ///< a weight in half precision, which autocast keeps for a while
  bool operator==(const TracedStorage&) const = default;
};

struct TraceEvent {
  std::size_t storage;  ///< index into storages()
  bool is_birth;
  StepPhase phase;
  double flops;  ///< of all that had begun by then
  bool operator==(const TraceEvent&) const = default;
};

/// What is done with work that is shown to repeat itself (stages/plan/repetition.h).
enum class Repeated {
  kNoted,     ///< it is not done again: the trace notes once more what it noted
  kComputed,  ///< it is, which gives the same and takes longer
};

/// Records the birth and death of every storage on the Meta device while it lives, none of which
/// has memory:
///
///   register_meta_kernels();
///   MemoryTrace trace({.device = at::kCPU, .threads = 2});
///   const auto network = model.outline(data);
///   for (auto& item : network->named_parameters()) trace.own(item.value(), Owner::kParameter,
///   item.key()); step(*network); use(trace.events());
///
/// One at a time in a process, on one thread: operators, phases and saved tensors are those of the
/// thread that made it. Tensors that are made before it are not known to it, and may die in it; its
/// own may outlive it. A block of no bytes is none.
class MemoryTrace {
 public:
  /// Throws std::logic_error where another one lives.
  explicit MemoryTrace(Backend backend, Repeated repeated = Repeated::kNoted);
  ~MemoryTrace();
  MemoryTrace(const MemoryTrace&) = delete;
  MemoryTrace& operator=(const MemoryTrace&) = delete;

  /// Says whose a tensor's storage is. What own() says counts, whenever it is said while the tensor
  /// lives.
  void own(const at::Tensor& tensor, Owner owner, std::string name);

  const Backend& backend() const;
  std::vector<TracedStorage> storages() const;
  std::vector<TraceEvent> events() const;
  double flops() const;  ///< so far
  std::int64_t launches()
      const;  ///< operations that have been started so far, those within others not counted

  class Recorder;

 private:
  const std::shared_ptr<Recorder> recorder_;
};

/// While it lives, what is born on the Meta device is not that of the device that a trace stands in
/// for, and no trace knows of it: memory of the host beside a GPU.
class [[nodiscard]] ScopedUntraced {
 public:
  ScopedUntraced();
  ~ScopedUntraced();
  ScopedUntraced(const ScopedUntraced&) = delete;
  ScopedUntraced& operator=(const ScopedUntraced&) = delete;
};

/// Whose kernels the living trace stands in for; null: there is none.
const Backend* traced_backend();
/// Adds to the living trace's, if there is one, what a kernel computes.
void count_flops(double flops);
/// Says to the living trace, if there is one, that this stands for what a kernel may take for
/// itself.
void mark_scratch(const at::Tensor& tensor);
/// Likewise that this is the gradient of a parameter, which will not be there when the step is
/// computed.
void mark_gradient(const at::Tensor& tensor);
/// Likewise that this is a cast of a weight that autocast keeps.
void mark_cast(const at::Tensor& tensor);

}  // namespace stages
