#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include "stages/plan/memory_trace.h"

namespace at {
struct RecordFunction;
}

namespace stages {

/// Returns what the current thread is computing: the path of the running module, or the loss term;
/// "" if neither.
std::string running_purpose();

/// While this object lives, tracks which torch operation this thread is in. At most one may live
/// per thread.
class [[nodiscard]] ScopedOperations {
 public:
  class Observer {
   public:
    virtual ~Observer() = default;
    /// Called with each result of a completed operation, the innermost operation first.
    virtual void result(const at::Tensor& tensor) = 0;
    /// Called when the engine is about to add another gradient to `gradient`.
    virtual void sum_begins(const at::Tensor& gradient) = 0;
    /// Called with the result of the addition that sum_begins() announced.
    virtual void sum_ends(const at::Tensor& sum) = 0;
  };
  /// `observer` is borrowed.
  explicit ScopedOperations(Observer& observer);
  ~ScopedOperations();
  ScopedOperations(const ScopedOperations&) = delete;
  ScopedOperations& operator=(const ScopedOperations&) = delete;

  /// Returns the outermost operation, such as "aten::linear", or in a backward pass its node, such
  /// as "AddmmBackward0"; "" outside any operation.
  const std::string& current() const { return outermost_; }
  /// Returns running_purpose(), or in a backward pass the purpose of the forward operation of its
  /// node.
  std::string purpose() const;
  /// Returns the number of outermost operations begun so far. Distinguishes consecutive operations.
  std::size_t number() const { return number_; }
  /// Returns the number of operations begun so far that are not nested in another. Each operation
  /// of a backward pass counts, including those within an autograd function and those that it
  /// recomputes.
  std::int64_t launches() const { return launches_; }
  /// Returns the number of floating-point operations in matrix products so far, two per
  /// multiplication. Convolutions and attention count their own (count_flops()).
  double flops() const { return flops_; }

 private:
  struct Callbacks;
  void show(const at::RecordFunction& function, bool is_sum);
  void note_purpose(const at::RecordFunction& function);

  /// The nesting levels: the engine's step for a node, the node, operations, and additions of
  /// gradients.
  enum class Level { kEngine, kNode, kOperation, kSum };

  Observer& observer_;
  std::uint64_t handle_;
  std::string outermost_;
  std::vector<Level> levels_;
  std::unordered_map<std::int64_t, std::string>
      purposes_;                 // keyed by the sequence number that the next node will get
  std::string purpose_of_node_;  // purpose of the outermost node; empty outside any node
  std::size_t number_ = 0;
  std::int64_t launches_ = 0;
  double flops_ = 0;
};

/// While this object lives, reports every tensor that autograd saves for a backward pass on this
/// thread, once for each operation that saves it. Only the innermost scope reports. The first scope
/// replaces torch's autograd engine with one that differs only in this respect.
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

/// The state of a trace. Storages may outlive the trace, so they share ownership of it.
class MemoryTrace::Recorder final : public std::enable_shared_from_this<MemoryTrace::Recorder>,
                                    public ScopedOperations::Observer {
 public:
  Recorder(Backend backend, Repeated repeated, std::shared_ptr<RecordedParts> parts)
      : backend(std::move(backend)), repeated(repeated), parts(std::move(parts)) {}

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
  /// A section of the trace, independent of its position: storage indices and flops start at zero.
  struct Stretch {
    std::vector<TracedStorage> storages;
    std::vector<TraceEvent> events;
    std::vector<std::size_t> survivors;  ///< storages that are live at the end
    double flops;
    std::int64_t launches;
    /// True if both sections have the same contents, regardless of their positions.
    bool is_like(const Stretch& other) const;
  };
  /// Returns the section since `begin`; nullopt if an older storage has died since.
  std::optional<Stretch> since(const Place& begin) const;
  /// Appends a copy of a section, and returns the copy's storages for its survivors, in the same
  /// order. The storages of the section itself start at `first_storage`; nullopt: they belong to
  /// another trace, or to another batch.
  std::vector<c10::Storage> note_again(const Stretch& stretch,
                                       std::optional<std::size_t> first_storage);
  /// Returns the index of a tensor's storage; nullopt if it is not part of this trace.
  std::optional<std::size_t> find(const at::Tensor& tensor) const;

  const Backend backend;
  const Repeated repeated;
  const std::shared_ptr<RecordedParts> parts;  // not null
  mutable std::mutex mutex;                    // storages may be freed on any thread
  std::vector<TracedStorage> storages;
  std::vector<TraceEvent> events;
  double flops = 0;           // in addition to operations->flops()
  std::int64_t launches = 0;  // in addition to operations->launches()
  std::optional<ScopedOperations> operations;

 private:
  /// Represents a storage's memory, and is destroyed with it.
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

  /// An addition of gradients by the engine. Other devices overwrite an operand that is not used
  /// elsewhere with the result; Meta never does, so the trace corrects for it.
  struct Sum {
    std::size_t part;
    std::optional<std::size_t> result = {};  // nullopt until it exists
    std::size_t birth = 0;                   // index of the event that allocated it
  };

  bool is_open_ = false;
  std::vector<bool> is_owned_;  // per storage: own() was called
  std::vector<std::size_t>
      operation_of_;  // per storage: the number of the operation that allocated it
  std::vector<std::size_t>
      stands_for_;          // per storage: the storage that provides its memory, or itself
  std::optional<Sum> sum_;  // the last addition, until the next allocation
  std::optional<ScopedSavedTensors> saved_tensors_;
};

/// Returns the recorder of the live trace; null if there is none.
MemoryTrace::Recorder* living_recorder();

}  // namespace stages
