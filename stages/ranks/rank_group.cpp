#define USE_C10D_GLOO  // without this, the process group's header declares nothing

#include "stages/ranks/rank_group.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/text/join.h"
#include "stages/machine/device.h"
#include "stages/ranks/lost_ranks.h"
#include "stages/ranks/messages.h"
#include "stages/ranks/packed_tensors.h"

namespace stages {
namespace {

std::string first_line(const char* text) { return {text, std::strcspn(text, "\n")}; }

/// Returns a tensor with the same memory, which the caller keeps until the work is done. The
/// group's thread keeps its arguments a while longer, which would delay freeing memory that they
/// own.
at::Tensor borrowed(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options());
}

/// Disables LibTorch's log of all process groups, which is not thread-safe. LibTorch reads the
/// log's size once, when the first group is created.
void switch_flight_recorder_off() {
  static const bool is_off = setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1) == 0;
  static_cast<void>(is_off);
}

/// Creates Gloo's device and its event loop, a thread of low priority: the loop polls a connection
/// that another thread has locked, and must not take that thread's processor.
auto device_at(const std::string& address) {
  const auto create = [&address] {
    constexpr int kLowPriority = 10;
    // Applies to this thread and to those that it starts.
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowPriority);
    return c10d::ProcessGroupGloo::createDeviceForHostname(address);
  };
  return std::async(std::launch::async, create).get();
}

}  // namespace

RankGroup::RankGroup(int rank, int size, c10::intrusive_ptr<c10d::Store> store,
                     const std::string& address, std::chrono::seconds timeout)
    : rank_(rank), size_(size), timeout_(timeout), store_(std::move(store)), messages_(rank, size) {
  store_->setTimeout(timeout);
  in_group([&] {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->threads = 1;  // one collective at a time
    options->devices = {device_at(address)};
    backend_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store_, rank, size, options);
  });
}

void RankGroup::use_gpu(c10::Device gpu) {
  device_ = gpu;
  buffer_ = torch::empty({kMessageBytes}, torch::TensorOptions(torch::kByte).pinned_memory(true));
}

RankGroup::~RankGroup() {
  if (!has_said_why_) return;
  backend_.reset();  // from now on the other ranks look for the reason
  wait_until_heard(*store_, rank_, size_);
}

void RankGroup::say_why(const std::string& reason) {
  if (has_said_why_) return;
  try {
    stages::say_why(*store_, rank_, reason);
    has_said_why_ = true;
  } catch (const std::exception&) {  // rank 0, which serves the store, has exited
  }
}

std::string RankGroup::silence_of(const std::vector<int>& ranks) const {
  std::vector<std::string> numbers;
  for (const int rank : ranks) numbers.push_back(std::to_string(rank));
  const bool is_one = ranks.size() == 1;
  return (is_one ? "rank " : "ranks ") + runner::join(numbers, ", ") + (is_one ? " has" : " have") +
         " not responded for " + std::to_string(timeout_.count()) +
         " s (device.collective_timeout_seconds), and last took part in " +
         (reached_.empty() ? "the meeting of the ranks" : reached_);
}

runner::StageError RankGroup::lost(const std::exception& error, bool has_waited) {
  const LostRanks others = find_lost_ranks(store_, rank_, size_, has_waited);
  if (others.reason.empty() && !others.silent.empty())
    return runner::StageError(runner::ErrorCode::kRankLost,
                              "rank " + std::to_string(rank_) + " has lost contact with another " +
                                  "rank of the run: " + silence_of(others.silent))
        .with_help(
            "`retort resume` continues the run; if the rank was only busy, raise "
            "device.collective_timeout_seconds");
  return runner::StageError(runner::ErrorCode::kRankLost,
                            "rank " + std::to_string(rank_) +
                                " has lost contact with another rank of the run: " +
                                (others.reason.empty() ? first_line(error.what()) : others.reason))
      .with_help("see the other rank's error; `retort resume` continues the run");
}

template <typename Call>
void RankGroup::in_group(Call call) {
  ++exchanges_;
  const auto begin = std::chrono::steady_clock::now();
  try {
    call();
  } catch (const std::exception& error) {
    // If one rank gives up waiting, the others lose contact with it at once, a little earlier than
    // they would have given up themselves.
    const bool has_waited = 2 * (std::chrono::steady_clock::now() - begin) >= timeout_;
    lost_ = std::make_exception_ptr(lost(error, has_waited));
    std::rethrow_exception(lost_);
  }
}

/// Calls `call` with a tensor's values in host memory; a GPU tensor is passed through a buffer, in
/// chunks. If `is_given`, each chunk is copied to the host before the call; if `is_taken`, it is
/// copied back afterward.
template <typename Call>
void RankGroup::on_host(const at::Tensor& tensor, bool is_given, bool is_taken, Call call) {
  if (!tensor.is_cuda()) return call(borrowed(tensor));
  const torch::NoGradGuard no_graph;
  const auto bytes = static_cast<std::int64_t>(tensor.element_size());
  const std::int64_t most = buffer_.numel() / bytes;
  const at::Tensor flat = tensor.view(-1);
  for (std::int64_t begin = 0; begin < flat.numel(); begin += most) {
    const at::Tensor part = flat.narrow(0, begin, std::min(most, flat.numel() - begin));
    const at::Tensor here = buffer_.narrow(0, 0, part.numel() * bytes).view(tensor.scalar_type());
    if (is_given) here.copy_(part);
    call(borrowed(here));
    if (is_taken) part.copy_(here);
  }
}

std::string RankGroup::text_of_first(const std::string& own) {
  const std::string key = "text-" + std::to_string(texts_++);
  std::string text = own;
  in_group([&] {
    if (rank_ == 0) store_->set(key, own);
    else text = store_->get_to_str(key);
  });
  return text;
}

void RankGroup::require_same(const std::string& what, const std::string& own,
                             const std::string& help) {
  const std::string first = text_of_first(own);
  if (own == first) return;
  throw runner::StageError(runner::ErrorCode::kNoMeeting, "rank " + std::to_string(rank_) +
                                                              " differs from rank 0 in " + what +
                                                              ": " + own + " instead of " + first)
      .with_help(help);
}

std::int64_t RankGroup::largest(std::int64_t value) { return largest_along(value, /*bytes=*/0); }

std::int64_t RankGroup::largest_along(std::int64_t value, std::int64_t bytes) {
  messages_.number(rank_) = value;
  in_group([&] { messages_.exchange(*backend_, bytes); });
  reached_ = place_;
  for (int rank = 0; rank < size_; ++rank) value = std::max(value, messages_.number(rank));
  return value;
}

void RankGroup::exchange_along(std::int64_t bytes) { largest_along(0, bytes); }

void RankGroup::take_sum(const PackedTensors& tensors) {
  std::vector<std::uint8_t*> copies;
  for (int rank = 0; rank < size_; ++rank) copies.push_back(along(rank));
  tensors.set_to_sum(copies);
}

void RankGroup::sum(const PackedTensors& tensors) {
  tensors.pack(along(rank_));
  exchange_along(tensors.bytes());
  take_sum(tensors);
}

void RankGroup::sum(const at::Tensor& tensor) {
  on_host(tensor, /*is_given=*/true, /*is_taken=*/true,
          [this](const at::Tensor& here) { sum_on_host(here); });
}

void RankGroup::sum_on_host(const at::Tensor& tensor) {
  std::vector<at::Tensor> one = {tensor};
  const PackedTensors packed(one);
  if (packed.bytes() <= most_along()) sum(packed);
  else in_group([&] { backend_->allreduce(one)->wait(); });
}

void RankGroup::broadcast(const at::Tensor& tensor, int from) {
  c10d::BroadcastOptions options;
  options.rootRank = from;
  on_host(tensor, /*is_given=*/rank_ == from, /*is_taken=*/rank_ != from, [&](at::Tensor here) {
    std::vector<at::Tensor> one = {std::move(here)};
    in_group([&] { backend_->broadcast(one, options)->wait(); });
  });
}

void RankGroup::send(const at::Tensor& tensor, int to) {
  on_host(tensor, /*is_given=*/true, /*is_taken=*/false, [&](at::Tensor here) {
    std::vector<at::Tensor> one = {std::move(here)};
    in_group([&] { backend_->send(one, to, /*tag=*/0)->wait(); });
  });
}

void RankGroup::receive(const at::Tensor& tensor, int from) {
  on_host(tensor, /*is_given=*/false, /*is_taken=*/true, [&](at::Tensor here) {
    std::vector<at::Tensor> one = {std::move(here)};
    in_group([&] { backend_->recv(one, from, /*tag=*/0)->wait(); });
  });
}

RankGroup::Gathered RankGroup::gather(const at::Tensor& rows) {
  if (!rows.is_cuda()) return gather_on_host(rows);
  at::Tensor own;
  together([&] { own = rows.cpu(); });
  Gathered gathered = gather_on_host(own);
  together([&] { gathered.rows = gathered.rows.to(rows.device()); });
  return gathered;
}

RankGroup::Gathered RankGroup::gather_on_host(const at::Tensor& rows) {
  at::Tensor counts;
  together([&] {
    counts = torch::zeros({size_}, torch::kLong);
    counts.mutable_data_ptr<std::int64_t>()[rank_] = rows.size(0);
  });
  sum(counts);
  const std::int64_t* const count = counts.const_data_ptr<std::int64_t>();
  at::Tensor own;
  std::vector<at::Tensor> all;
  together([&] {
    std::vector<std::int64_t> shape = rows.sizes().vec();
    shape[0] = *std::max_element(count, count + size_);
    own = torch::zeros(shape, rows.options());
    own.narrow(0, 0, rows.size(0)).copy_(rows);
    for (int rank = 0; rank < size_; ++rank) all.push_back(torch::empty_like(own));
  });
  std::vector<at::Tensor> given = {borrowed(own)};
  std::vector<std::vector<at::Tensor>> taken(1);
  for (const at::Tensor& one : all) taken[0].push_back(borrowed(one));
  in_group([&] { backend_->allgather(taken, given)->wait(); });
  Gathered gathered;
  together([&] {
    for (int rank = 0; rank < size_; ++rank) {
      at::Tensor& part = all[static_cast<std::size_t>(rank)];
      part = part.narrow(0, 0, count[rank]);
    }
    gathered.rows = torch::cat(all);
  });
  gathered.own = std::accumulate(count, count + rank_, std::int64_t{0});
  return gathered;
}

namespace {

/// Sent by a rank instead of its number when it runs out of memory.
constexpr std::int64_t kOutOfMemory = INT64_MAX;
/// Sent by a rank instead of its number when it has a request.
constexpr std::int64_t kQuestion = INT64_MAX - 1;

[[noreturn]] void throw_out_of_memory() {
  C10_THROW_ERROR(OutOfMemoryError, "another rank of the run ran out of memory");
}

}  // namespace

// A rank that runs out of memory reports this once, at the end of its work. The other ranks learn
// of it at their next exchange: before a sum during the work, or at its end.
void RankGroup::together(const std::function<void()>& work) {
  largest_of([&] {
    work();
    return std::int64_t{0};
  });
}

std::int64_t RankGroup::largest_of(const std::function<std::int64_t()>& work, std::int64_t bytes) {
  std::int64_t own = kOutOfMemory;
  carries_ = bytes > 0;
  std::exception_ptr out_of_memory;
  is_told_ = false;
  try {
    own = work();
  } catch (const std::exception& error) {
    if (lost_) std::rethrow_exception(lost_);  // not what Python code turned it into
    if (is_told_) throw_out_of_memory();
    if (!is_out_of_memory(error, device_)) throw;  // the other ranks notice that this rank exits
    out_of_memory = std::current_exception();
  }
  carries_ = false;
  if (is_told_) throw_out_of_memory();
  const std::int64_t of_all = bytes > 0 ? largest_along(own, bytes) : largest_once_answered(own);
  if (out_of_memory) std::rethrow_exception(out_of_memory);
  if (of_all == kOutOfMemory) throw_out_of_memory();
  return of_all;
}

std::int64_t RankGroup::largest_in_work(std::int64_t value) {
  if (carries_) throw std::logic_error("work that sends bytes along waits for other ranks");
  std::int64_t of_all = kOutOfMemory;
  if (!is_told_) of_all = value == kQuestion ? largest(value) : largest_once_answered(value);
  is_told_ = of_all == kOutOfMemory;
  if (is_told_) throw_out_of_memory();
  return of_all;
}

/// Returns the largest number of all ranks once none of them has a request.
std::int64_t RankGroup::largest_once_answered(std::int64_t value) {
  for (;;) {
    const std::int64_t of_all = largest(value);
    if (of_all != kQuestion) return of_all;
    answer(0);
  }
}

void RankGroup::ask_in_work(std::int64_t what) {
  largest_in_work(kQuestion);
  answer(what);
}

void RankGroup::answer_rest() {
  if (answer_) largest_once_answered(0);
}

/// Shares every rank's request with all ranks, and answers the requests.
void RankGroup::answer(std::int64_t own) {
  asked_.assign(static_cast<std::size_t>(size_), 0);
  asked_[static_cast<std::size_t>(rank_)] = own;
  sum(at::from_blob(asked_.data(), {size_}, torch::kLong));
  answer_(asked_);
}

void RankGroup::sum_in_work(const at::Tensor& tensor) {
  largest_in_work(0);
  sum(tensor);
}

void RankGroup::sum_to_in_work(const at::Tensor& tensor, int to) {
  largest_in_work(0);
  c10d::ReduceOptions options;
  options.rootRank = to;
  on_host(tensor, /*is_given=*/true, /*is_taken=*/rank_ == to, [&](at::Tensor here) {
    std::vector<at::Tensor> one = {std::move(here)};
    in_group([&] { backend_->reduce(one, options)->wait(); });
  });
}

void run_as_ranks(int size, const std::function<void(const runner::RankOfRun& own)>& work) {
  switch_flight_recorder_off();
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      // When a rank ends, even by an exception, it closes the connections that others are waiting
      // on.
      try {
        RankGroup group(rank, size, store, "127.0.0.1");
        work({.rank = rank, .size = size, .peers = &group});
      } catch (...) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::exception_ptr first;
  for (const std::exception_ptr& one : thrown) {
    if (!one) continue;
    if (!first) first = one;
    try {
      std::rethrow_exception(one);
    } catch (const runner::StageError& error) {
      if (error.code == runner::ErrorCode::kRankLost) continue;
    } catch (...) {
    }
    std::rethrow_exception(one);
  }
  if (first) std::rethrow_exception(first);
}

void together(const runner::RankOfRun& ranks, const std::function<void()>& work) {
  if (RankGroup* const group = group_of(ranks)) group->together(work);
  else work();
}

RankGroup* group_of(const runner::RankOfRun& ranks) {
  return ranks.size > 1 ? dynamic_cast<RankGroup*>(ranks.peers) : nullptr;
}

Share share_of(std::int64_t units, std::int64_t in_group, int rank, int ranks) {
  const std::int64_t groups = std::max<std::int64_t>(units / in_group, 1);
  if (rank >= groups) return {0, std::min(in_group, units), /*counts=*/false};
  const std::int64_t each = groups / ranks, more = groups % ranks;
  const auto begin_of = [&](std::int64_t which) {
    return (which * each + std::min<std::int64_t>(which, more)) * in_group;
  };
  const bool is_last = rank + 1 == std::min<std::int64_t>(ranks, groups);
  return {begin_of(rank), is_last ? units : begin_of(rank + 1)};
}

}  // namespace stages
