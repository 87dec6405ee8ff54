#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include "stages/plan/memory_trace.h"

namespace at {
struct RecordFunction;
}

namespace stages {

struct RecordedPart;

/// What the current thread computes: the path of the running module, or the term of the loss; "" if
/// there is neither.
std::string running_purpose();

/// Tracks which torch operation this thread is in, while it lives; at most one per thread.
class [[nodiscard]] ScopedOperations {
 public:
  class Observer {
   public:
    virtual ~Observer() = default;
    /// Called with each result of an operation that ends, the innermost operation first.
    virtual void result(const at::Tensor& tensor) = 0;
    /// The engine is about to add another gradient to `gradient`.
    virtual void sum_begins(const at::Tensor& gradient) = 0;
    /// The result of that addition.
    virtual void sum_ends(const at::Tensor& sum) = 0;
  };
  /// The observer must outlive it.
  explicit ScopedOperations(Observer& observer);
  ~ScopedOperations();
  ScopedOperations(const ScopedOperations&) = delete;
  ScopedOperations& operator=(const ScopedOperations&) = delete;

  /// The outermost operation, "aten::linear", or in a backward pass its node, "AddmmBackward0"; ""
  /// outside of all.
  const std::string& current() const { return outermost_; }
  /// running_purpose(), or in a backward pass the purpose of the forward operation of its node.
  std::string purpose() const;
  /// How many outermost operations have begun: distinguishes one from the next.
  std::size_t number() const { return number_; }
  /// How many operations have begun that are inside no other. Each operation of a backward pass
  /// counts, and so does each of an autograd function and of what is recomputed in one.
  std::int64_t launches() const { return launches_; }
  /// Operations of the matrix products so far, two per multiplication of numbers. Convolutions and
  /// attention count their own (count_flops()).
  double flops() const { return flops_; }

 private:
  struct Callbacks;
  void show(const at::RecordFunction& function, bool is_sum);
  void note_purpose(const at::RecordFunction& function);

  /// The nesting: the engine's step for a node, the node, operations.
  enum class Level { kEngine, kNode, kOperation, kSum };

  Observer& observer_;
  std::uint64_t handle_;
  std::string outermost_;
  std::vector<Level> levels_;
  std::unordered_map<std::int64_t, std::string>
      purposes_;                 // by the sequence number of a node that is not yet made
  std::string purpose_of_node_;  // of the outermost node; empty outside of all
  std::size_t number_ = 0;
  std::int64_t launches_ = 0;
  double flops_ = 0;
};

/// Reports every tensor that autograd saves for a backward pass on this thread, while it lives. A
/// tensor is reported once for each operation that saves it. The innermost scope counts. The first
/// scope installs our own engine in torch, which differs from torch's only in this.
class [[nodiscard]] ScopedSavedTensors {
 public:
  explicit ScopedSavedTensors(std::function<void(const at::Tensor&)> show);
  ~ScopedSavedTensors();
  ScopedSavedTensors(const ScopedSavedTensors&) = delete;
  ScopedSavedTensors& operator=(const ScopedSavedTensors&) = delete;

 private:
  const std::function<void(const at::Tensor&)> show_;
  const std::function<void(const at::Tensor&)>* const before_;
};

/// The state of a trace. Its storages may outlive the trace, so they share ownership of it.
class MemoryTrace::Recorder final : public std::enable_shared_from_this<MemoryTrace::Recorder>,
                                    public ScopedOperations::Observer {
 public:
  Recorder(Backend backend, Repeated repeated) : backend(std::move(backend)), repeated(repeated) {}

  /// Starts recording on this thread.
  void open();
  /// Stops recording.
  void close();

  c10::DataPtr birth(std::int64_t bytes);
  void own(const at::Tensor& tensor, Owner owner, std::string name);
  void mark(const at::Tensor& tensor, bool TracedStorage::*as);
  double flops_so_far() const { return flops + (operations ? operations->flops() : 0); }
  std::int64_t launches_so_far() const {
    return launches + (operations ? operations->launches() : 0);
  }

  /// A position in the trace.
  struct Place {
    std::size_t events, storages;
    double flops;
    std::int64_t launches;
  };
  Place place() const;
  /// A section of the trace, independent of its position: storage numbers and flops count from its
  /// beginning.
  static constexpr std::size_t kNewStorages = ~std::size_t{0};
  struct Stretch {
    std::size_t first_storage;  ///< kNewStorages: note_again() adds all of its storages
    std::vector<TracedStorage> storages;
    std::vector<TraceEvent> events;
    std::vector<std::size_t> survivors;  ///< storages still alive at the end
    double flops;
    std::int64_t launches;
    /// True if both recorded the same, regardless of their positions.
    bool is_like(const Stretch& other) const;
  };
  /// Everything since `begin`; nullopt if a storage from before has died since.
  std::optional<Stretch> since(const Place& begin) const;
  /// Records a section once more, and returns memory for each of its survivors, in their order.
  std::vector<c10::Storage> note_again(const Stretch& stretch);
  /// The index of a tensor's storage; nullopt if it is not a storage of this trace.
  std::optional<std::size_t> find(const at::Tensor& tensor) const;

  const Backend backend;
  const Repeated repeated;
  mutable std::mutex mutex;  // storages may die on any thread
  std::vector<TracedStorage> storages;
  std::vector<TraceEvent> events;
  double flops = 0;           // in addition to what the operations count
  std::int64_t launches = 0;  // in addition to what the operations count
  std::optional<ScopedOperations> operations;
  /// Parts of batches (repetition.h), by the name of their loop, the units of the batch, and those
  /// before the part.
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::shared_ptr<const RecordedPart>>
      parts;

 private:
  /// Stands for a storage's memory: it dies with the storage.
  struct Block {
    std::shared_ptr<Recorder> recorder;
    std::size_t index;
  };
  static void death(void* block);
  c10::DataPtr block(std::size_t index);
  std::size_t add(TracedStorage storage);
  std::optional<std::size_t> index_of(const at::Tensor& tensor) const;
  void describe(std::size_t index, const at::Tensor& tensor);
  void saved(const at::Tensor& tensor);
  void result(const at::Tensor& tensor) override;
  void sum_begins(const at::Tensor& gradient) override;
  void sum_ends(const at::Tensor& sum) override;

  /// An addition of the engine. Other devices write it over one of its operands if nothing else
  /// holds that; Meta never does.
  struct Sum {
    std::size_t part;
    std::optional<std::size_t> result = {};  // once it exists
    std::size_t birth = 0;                   // of the result, among the events
  };

  bool is_open_ = false;
  std::vector<bool> is_owned_;  // per storage: own() was called
  std::vector<std::size_t>
      operation_of_;  // per storage: the number of the operation that allocated it
  std::vector<std::size_t> stands_for_;  // per storage: the one whose memory it uses, or itself
  std::optional<Sum> sum_;  // the last addition, while nothing has been allocated after it
  std::optional<ScopedSavedTensors> saved_tensors_;
};

/// The recorder of the living trace; null if there is none.
MemoryTrace::Recorder* living_recorder();

}  // namespace stages
