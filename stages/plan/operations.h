#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

namespace at {
struct RecordFunction;
}

namespace stages {

/// What the current thread computes: the path of the running module, or the term of the loss; "" where neither runs.
std::string running_purpose();

/// Knows which operation of torch this thread is in, as long as it lives; one at a time on a thread.
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

  /// The outermost, "aten::linear", or of a backward pass its node, "AddmmBackward0"; "" outside of all.
  const std::string& current() const { return outermost_; }
  /// running_purpose(), or in a backward pass that of the forward of its node.
  std::string purpose() const;
  /// How many of the outermost have begun: tells one from the next.
  std::size_t number() const { return number_; }
  /// How many operations have begun that are in no other: those of a backward pass count each, and so do those of an
  /// autograd function and of what is computed again in one.
  std::int64_t launches() const { return launches_; }
  /// Of the matrix products so far, two for each product of numbers. Convolutions and attention count themselves
  /// (count_flops()).
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
  std::unordered_map<std::int64_t, std::string> purposes_;  // by the sequence number of a node that is yet to be made
  std::string purpose_of_node_;                             // of the outermost node; empty outside of all
  std::size_t number_ = 0;
  std::int64_t launches_ = 0;
  double flops_ = 0;
};

}  // namespace stages
