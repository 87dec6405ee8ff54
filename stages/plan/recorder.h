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

/// What the current thread computes: the path of the running module, or the term of the loss; ""
/// where neither runs.
std::string running_purpose();

/// Knows which operation of torch this thread is in, as long as it lives; one at a time on a
/// thread.
class [[nodiscard]] ScopedOperations {
 public:
  class Observer {
   public:
    virtual ~Observer() = default;
    /// A result of an operation that ends, the innermost first.
    virtual void result(const at::Tensor& tensor) = 0;
    /// The engine is about to add another gradient to `gradient`.
    virtual void sum_begins(const at::Tensor& gradient) = 0;
    /// That is what came of it.
    virtual void sum_ends(const at::Tensor& sum) = 0;
  };
  /// The observer must outlive it.
  explicit ScopedOperations(Observer& observer);
  ~ScopedOperations();
  ScopedOperations(const ScopedOperations&) = delete;
  ScopedOperations& operator=(const ScopedOperations&) = delete;

  /// The outermost, "aten::linear", or of a backward pass its node, "AddmmBackward0"; "" outside of
  /// all.
  const std::string& current() const { return outermost_; }
  /// running_purpose(), or in a backward pass that of the forward of its node.
  std::string purpose() const;
  /// How many of the outermost have begun: tells one from the next.
  std::size_t number() const { return number_; }
  /// How many operations have begun that are in no other: those of a backward pass count each, and
  /// so do those of an autograd function and of what is computed again in one.
  std::int64_t launches() const { return launches_; }
  /// Of the matrix products so far, two for each product of numbers. Convolutions and attention
  /// count themselves (count_flops()).
  double flops() const { return flops_; }

 private:
  struct Callbacks;
  void show(const at::RecordFunction& function, bool is_sum);
  void note_purpose(const at::RecordFunction& function);

  /// What runs within what: the engine's step for a node, the node, operations.
  enum class Level { kEngine, kNode, kOperation, kSum };

  Observer& observer_;
  std::uint64_t handle_;
  std::string outermost_;
  std::vector<Level> levels_;
  std::unordered_map<std::int64_t, std::string>
      purposes_;                 // by the sequence number of a node that is yet to be made
  std::string purpose_of_node_;  // of the outermost node; empty outside of all
  std::size_t number_ = 0;
  std::int64_t launches_ = 0;
  double flops_ = 0;
};

/// Shows every tensor that autograd keeps for a backward pass, on this thread as long as it lives.
/// A tensor is shown once for each operation that keeps it. The inner scope counts. The first one
/// installs an engine of ours in torch, which differs from torch's own in nothing else.
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

/// What a trace knows. Its storages may outlive the trace, so the last of them and the trace share
/// it.
class MemoryTrace::Recorder final : public std::enable_shared_from_this<MemoryTrace::Recorder>,
                                    public ScopedOperations::Observer {
 public:
  Recorder(Backend backend, Repeated repeated) : backend(std::move(backend)), repeated(repeated) {}

  /// Begins to watch this thread.
  void open();
  /// From here on nothing is recorded.
  void close();

  c10::DataPtr birth(std::int64_t bytes);
  void own(const at::Tensor& tensor, Owner owner, std::string name);
  void mark(const at::Tensor& tensor, bool TracedStorage::*as);
  double flops_so_far() const { return flops + (operations ? operations->flops() : 0); }
  std::int64_t launches_so_far() const {
    return launches + (operations ? operations->launches() : 0);
  }

  /// How far the trace has come.
  struct Place {
    std::size_t events, storages;
    double flops;
    std::int64_t launches;
  };
  Place place() const;
  /// A stretch of the trace, by itself: storages are numbered from its first on, and flops counted
  /// from its beginning.
  struct Stretch {
    std::size_t first_storage;
    std::vector<TracedStorage> storages;
    std::vector<TraceEvent> events;
    std::vector<std::size_t> survivors;  ///< storages that are left
    double flops;
    std::int64_t launches;
    /// Notes the same: where it was noted counts for nothing.
    bool is_like(const Stretch& other) const;
  };
  /// All since `begin`; nullopt where a storage that was there before has died in it.
  std::optional<Stretch> since(const Place& begin) const;
  /// Notes a stretch once more, with memory for each of its survivors, in their order.
  std::vector<c10::Storage> note_again(const Stretch& stretch);
  /// The index of a tensor's storage; nullopt where it is no storage of this trace.
  std::optional<std::size_t> find(const at::Tensor& tensor) const;

  const Backend backend;
  const Repeated repeated;
  mutable std::mutex mutex;  // storages may die on any thread
  std::vector<TracedStorage> storages;
  std::vector<TraceEvent> events;
  double flops = 0;           // beside what the operations count
  std::int64_t launches = 0;  // likewise
  std::optional<ScopedOperations> operations;

 private:
  /// What stands for a storage's memory: its death is the storage's.
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

  /// A sum of the engine's: on other devices it is written over one of its parts, if nobody else
  /// holds that; on Meta it never is.
  struct Sum {
    std::size_t part;
    std::optional<std::size_t> result = {};  // once it is there
    std::size_t birth = 0;                   // of the result, among the events
  };

  bool is_open_ = false;
  std::vector<bool> is_owned_;  // of each storage: own() has spoken
  std::vector<std::size_t>
      operation_of_;  // of each storage: the number of the operation that made it
  std::vector<std::size_t>
      stands_for_;          // of each storage: the one whose memory it has, or it itself
  std::optional<Sum> sum_;  // the last one, as long as nothing was born after it
  std::optional<ScopedSavedTensors> saved_tensors_;
};

/// Of the living trace; null: there is none.
MemoryTrace::Recorder* living_recorder();

}  // namespace stages
