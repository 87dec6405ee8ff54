#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/run_context.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace stages {

/// What connects the ranks of a run: PyTorch's process groups. Every function that is called by one
/// rank has to be called by all of them, in the same order. It waits for them, and throws
/// runner::StageError, kRankLost, if one of them has ended. Sums are taken in an order that depends
/// on the number of ranks and the size alone, so all ranks get the same bits, in every run.
class RankGroup final : public runner::Peers {
 public:
  /// Connects the ranks that have `store` in common, through Gloo. `address` is that of the
  /// interface of this machine by which the others reach this rank.
  RankGroup(int rank, int size, c10::intrusive_ptr<c10d::Store> store, const std::string& address);
  /// After say_why() it waits a moment for the others, which then read the reason.
  ~RankGroup() override;

  /// This rank computes on a GPU: the tensors below may be there too. They travel through a buffer
  /// in pinned memory, which this allocates, so sums have the same bits as on a CPU.
  void use_gpu(c10::Device gpu);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// The text that rank 0 gives.
  std::string text_of_first(const std::string& own);
  /// Throws runner::StageError, kNoMeeting, on each rank that gives another text than rank 0.
  /// `what` is the subject of the message, `help` its advice.
  void require_same(const std::string& what, const std::string& own,
                    const std::string& help = "all ranks have to read the same files");
  std::int64_t largest(std::int64_t value);
  std::int64_t least(std::int64_t value) { return -largest(-value); }
  void wait_for_all() { largest(0); }

  /// Lets the others know why this rank is about to end: it is in the message of their kRankLost.
  void say_why(const std::string& reason);

  // The tensors below are contiguous, on the CPU or the GPU of use_gpu(). Nothing is allocated but
  // by gather(), and nothing is kept once the call has returned.

  /// Sums the tensor over all ranks, in place.
  void sum(const at::Tensor& tensor);
  /// Gives all ranks the numbers that the tensor has on rank `from`.
  void broadcast(const at::Tensor& tensor, int from);
  /// Gives them to one other rank, which calls receive() with a tensor of the same size and type.
  void send(const at::Tensor& tensor, int to);
  void receive(const at::Tensor& tensor, int from);
  /// Begins sum(). The tensor holds it once the function that this returns has been called.
  std::function<void()> begin_sum(at::Tensor tensor);
  /// The rows of all ranks, in the order of the ranks. Their numbers may differ. Runs out of memory
  /// on all of them or on none.
  struct Gathered {
    at::Tensor rows;
    std::int64_t own = 0;  ///< where this rank's begin
  };
  Gathered gather(const at::Tensor& rows);

  /// Runs `work`, which calls none of these functions except sum_in_work(), on all ranks. If memory
  /// runs out on one, all of them throw c10::OutOfMemoryError, so that all can repeat the step. Any
  /// other failure ends its rank.
  void together(const std::function<void()>& work);
  /// The same, and the largest of the numbers >= 0 that the ranks' work returns.
  std::int64_t largest_of(const std::function<std::int64_t()>& work);
  /// sum() for the work of together(). If memory has run out on another rank, it throws
  /// c10::OutOfMemoryError. The work must end by an exception then, of whatever type: code in
  /// Python makes others.
  void sum_in_work(const at::Tensor& tensor);

 private:
  template <typename Call>
  void in_group(Call call);
  template <typename Call>
  void on_host(const at::Tensor& tensor, bool is_given, bool is_taken, Call call);
  Gathered gather_on_host(const at::Tensor& rows);
  runner::StageError lost(const std::exception& error);

  const int rank_, size_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  at::Tensor number_;  // of largest(), which is called when memory has run out
  c10::Device device_ = c10::kCPU;
  at::Tensor buffer_;        // bytes that a GPU's tensors travel through; undefined on a CPU
  bool is_told_ = false;     // within together(): memory has run out, as all ranks know
  std::exception_ptr lost_;  // another rank has ended
  std::int64_t texts_ = 0;   // given so far
  bool has_said_why_ = false;
};

/// Calls `work` for each of `size` ranks, which are threads of this process. If one of them throws,
/// the others end too, and this throws what it has thrown.
void run_as_ranks(int size, const std::function<void(const runner::RankOfRun& own)>& work);

/// RankGroup::together(), or the work alone without other ranks. All that allocates in a step, from
/// its beginning to its commit, is in one of these: a rank that ran out of memory between two of
/// them would repeat the step while the others go on.
void together(const runner::RankOfRun& ranks, const std::function<void()>& work);

/// The group that a stage's context connects it with; null if there is one rank, or in a dry run.
RankGroup* group_of(const runner::RankOfRun& ranks);

/// The units [begin, end) of a batch that one rank computes.
struct Share {
  std::int64_t begin = 0, end = 0;
  /// False: there are fewer units than ranks. This rank computes a unit that another one computes
  /// too, so that all do the same operations, and what it gives the sums is 0.
  bool counts = true;
  std::int64_t units() const { return end - begin; }
};

/// Divides a batch as evenly as groups of `in_group` units allow; the first ranks have more.
Share share_of(std::int64_t units, std::int64_t in_group, int rank, int ranks);

}  // namespace stages
