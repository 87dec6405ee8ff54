#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/run_context.h"
#include "stages/ranks/short_messages.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace stages {

class PackedTensors;

/// How long a rank waits for another one by default, as in torch.distributed.
inline constexpr std::chrono::seconds kCollectiveTimeout = std::chrono::minutes(30);

/// Connects the ranks of a run, using PyTorch's process groups. All ranks must call the same
/// functions in the same order. A call waits for the other ranks, and throws runner::StageError
/// (kRankLost) if one of them has exited, or has not responded for the timeout. The order of
/// summation depends only on the number of ranks and the size, so all ranks get bitwise the same
/// result, in every run.
class RankGroup final : public runner::Peers {
 public:
  /// Connects the ranks that share `store`, using Gloo. `address` is the address of the network
  /// interface through which the other ranks reach this one.
  RankGroup(int rank, int size, c10::intrusive_ptr<c10d::Store> store, const std::string& address,
            std::chrono::seconds timeout = kCollectiveTimeout);
  /// After say_why(), waits briefly so that the other ranks can read the reason.
  ~RankGroup() override;

  /// Declares that this rank computes on a GPU, so the tensors below may be there too. They are
  /// sent through a pinned buffer, which this call allocates, so sums are bitwise the same as on a
  /// CPU.
  void use_gpu(c10::Device gpu);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Returns the string passed by rank 0.
  std::string text_of_first(const std::string& own);
  /// Throws runner::StageError (kNoMeeting) on each rank that passes a different string from rank
  /// 0's. `what` is the subject of the message, `help` its advice.
  void require_same(const std::string& what, const std::string& own,
                    const std::string& help = "all ranks must read the same files");
  std::int64_t largest(std::int64_t value);
  std::int64_t least(std::int64_t value) { return -largest(-value); }
  void wait_for_all() { largest(0); }

  /// Sets what the ranks do from now on, such as "step 3 of 'train'". If a rank does not respond,
  /// the error names the last of these in which it took part.
  void begin(std::string place) { place_ = std::move(place); }

  /// Informs the other ranks why this rank is about to exit. Their kRankLost errors include the
  /// reason.
  void say_why(const std::string& reason);

  // The tensors below are contiguous, on the CPU or on the GPU of use_gpu(). Only gather()
  // allocates memory, and nothing is kept after a call returns.

  /// Sums the tensor over all ranks, in place.
  void sum(const at::Tensor& tensor);
  /// Copies the values of the tensor on rank `from` to all ranks.
  void broadcast(const at::Tensor& tensor, int from);
  /// Sends the tensor to one other rank, which must call receive() with a tensor of the same size
  /// and type.
  void send(const at::Tensor& tensor, int to);
  void receive(const at::Tensor& tensor, int from);
  /// Sums several small tensors on the CPU, in place. Allocates nothing. They must fit in along().
  void sum(const PackedTensors& tensors);
  /// The rows of all ranks, in rank order. Ranks may have different numbers of rows. Either all
  /// ranks run out of memory or none does.
  struct Gathered {
    at::Tensor rows;
    std::int64_t own = 0;  ///< index of this rank's first row
  };
  Gathered gather(const at::Tensor& rows);

  /// Runs `work` on all ranks. `work` may call only the functions of this class with a name that
  /// ends in in_work. If one rank runs out of memory, all ranks throw c10::OutOfMemoryError, so
  /// that all can repeat the step. Any other exception ends its rank.
  void together(const std::function<void()>& work);
  /// Like together(), but returns the largest number that `work` returned on any rank. The numbers
  /// must be >= 0.
  ///
  /// Each rank can send `bytes` bytes along with its number, without waiting for the others once
  /// more: `work` writes them to along(rank()). Then `work` must not call functions with a name
  /// that ends in in_work.
  std::int64_t largest_of(const std::function<std::int64_t()>& work, std::int64_t bytes = 0);

  /// The bytes of a rank that are sent along, aligned to 16 bytes: room for most_along() bytes.
  /// Those of other ranks are valid until the next function that communicates is called.
  std::uint8_t* along(int rank) { return messages_.bytes(rank); }
  std::int64_t most_along() const { return ShortMessages::most_bytes(size_); }
  /// Sends `bytes` bytes of along(rank()) to all ranks.
  void exchange_along(std::int64_t bytes);
  /// Sets tensors that each rank has packed into along() to their sum, in rank order. Sends
  /// nothing.
  void take_sum(const PackedTensors& tensors);

  /// How often this rank has sent something to others or waited for them so far.
  std::int64_t exchanges() const { return exchanges_; }

  /// Calls sum() within the work of together(). Throws c10::OutOfMemoryError if another rank has
  /// run out of memory. The work must then end with an exception, but not necessarily this one,
  /// since Python code may turn it into another.
  void sum_in_work(const at::Tensor& tensor);
  /// Like sum_in_work(), but only rank `to` gets the sum. On the other ranks, the values of the
  /// tensor are undefined afterward.
  void sum_to_in_work(const at::Tensor& tensor, int to);
  /// Like sum_in_work(), but for the largest of the ranks' numbers, which must be >= 0.
  std::int64_t largest_in_work(std::int64_t value);

  /// Answers the ranks' requests: `asked[r]` is the request of rank r, or 0 if it has none. It may
  /// call send(), receive() and broadcast(), and must not allocate tensors.
  using Answer = std::function<void(const std::vector<std::int64_t>& asked)>;
  /// From now on, the ranks may send requests to each other during work, each at a different time:
  /// while a rank waits for the others in a function with a name that ends in in_work, or at the
  /// end of its work, it calls `answer`. All ranks must call this at the same point. Null: requests
  /// are no longer possible.
  void answer_with(Answer answer) { answer_ = std::move(answer); }
  /// Sends the request `what`, which is > 0, and returns once `answer` has returned on all ranks.
  /// May also be used outside together(), if answer_rest() follows.
  void ask_in_work(std::int64_t what);
  /// Answers requests until all ranks have called this.
  void answer_rest();

 private:
  template <typename Call>
  void in_group(Call call);
  template <typename Call>
  void on_host(const at::Tensor& tensor, bool is_given, bool is_taken, Call call);
  Gathered gather_on_host(const at::Tensor& rows);
  std::int64_t largest_along(std::int64_t value, std::int64_t bytes);
  std::int64_t largest_once_answered(std::int64_t value);
  void sum_on_host(const at::Tensor& tensor);
  void answer(std::int64_t own);
  runner::StageError lost(const std::exception& error, bool has_waited);
  std::string silence_of(const std::vector<int>& ranks) const;

  const int rank_, size_;
  const std::chrono::seconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::string place_, reached_;  // passed to begin(): the latest, and the latest in which all ranks
                                 // took part
  ShortMessages messages_;
  std::int64_t exchanges_ = 0;
  c10::Device device_ = c10::kCPU;
  at::Tensor buffer_;  // bytes through which a GPU's tensors are sent; undefined on a CPU
  Answer answer_;      // null: no requests are allowed
  std::vector<std::int64_t> asked_;
  bool is_told_ = false;     // within together(): all ranks know that memory has run out
  bool carries_ = false;     // within together(): bytes will be sent along
  std::exception_ptr lost_;  // set once another rank has exited
  std::int64_t texts_ = 0;   // number of strings exchanged so far
  bool has_said_why_ = false;
};

/// Calls `work` for each of `size` ranks, which are threads of this process. If one of them throws,
/// the others end too, and the exception is rethrown.
void run_as_ranks(int size, const std::function<void(const runner::RankOfRun& own)>& work);

/// Calls RankGroup::together(), or just `work` if there are no other ranks. Everything that
/// allocates in a step, from its beginning to its commit, must be inside one of these calls:
/// otherwise a rank that runs out of memory would repeat the step while the others continue.
void together(const runner::RankOfRun& ranks, const std::function<void()>& work);

/// Returns the group that a stage is connected to; null if there is only one rank, or in a dry run.
RankGroup* group_of(const runner::RankOfRun& ranks);

/// The units [begin, end) of a batch that one rank computes.
struct Share {
  std::int64_t begin = 0, end = 0;
  /// False if this rank has no unit of its own, because there are more ranks than units. It then
  /// computes another rank's unit, so that all ranks run the same operations, and contributes 0 to
  /// the sums.
  bool counts = true;
  std::int64_t units() const { return end - begin; }
};

/// Divides a batch as evenly as possible without splitting groups of `in_group` units. The first
/// ranks get the larger shares.
Share share_of(std::int64_t units, std::int64_t in_group, int rank, int ranks);

}  // namespace stages
