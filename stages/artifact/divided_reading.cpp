#include "stages/artifact/divided_reading.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "stages/ranks/messages.h"
#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

/// The rows of a batch, divided among ranks.
class DividedRows {
 public:
  DividedRows(std::int64_t rows, std::int64_t in_group, const runner::RankOfRun& ranks)
      : ranks_(ranks), group_(*group_of(ranks)) {
    for (int rank = 0; rank < ranks.size; ++rank)
      shares_.push_back(share_of(rows, in_group, rank, ranks.size));
  }

  /// True if exchange_at_once() can send the tensors.
  bool fit(const std::vector<at::Tensor>& tensors) const {
    return most_bytes(tensors) <= group_.most_along() &&
           std::ranges::all_of(tensors,
                               [](const at::Tensor& tensor) { return tensor.is_contiguous(); });
  }

  /// Sends all rows of the tensors to every rank, in one message from each. Allocates nothing.
  void exchange_at_once(const std::vector<at::Tensor>& tensors) {
    const auto with_rows_of = [&](int rank, const auto& use) {
      const Share& share = shares_[static_cast<std::size_t>(rank)];
      std::uint8_t* sent = group_.along(rank);
      for (const at::Tensor& tensor : tensors) {
        if (!share.counts) return;
        const auto begin = static_cast<std::size_t>(share.begin * row_bytes(tensor)),
                   size = static_cast<std::size_t>(share.units() * row_bytes(tensor));
        use(static_cast<std::uint8_t*>(tensor.mutable_data_ptr()) + begin, sent, size);
        sent += size;
      }
    };
    with_rows_of(ranks_.rank, [](const std::uint8_t* rows, std::uint8_t* sent, std::size_t size) {
      std::memcpy(sent, rows, size);
    });
    group_.exchange_along(most_bytes(tensors));
    for (int rank = 0; rank < ranks_.size; ++rank) {
      if (rank == ranks_.rank) continue;
      with_rows_of(rank, [](std::uint8_t* rows, const std::uint8_t* sent, std::size_t size) {
        std::memcpy(rows, sent, size);
      });
    }
  }

  /// Sends all rows of the tensors to every rank.
  void exchange(const std::vector<at::Tensor>& tensors) {
    if (tensors.empty()) return;
    std::vector<ToSend> parts;
    for (int rank = 0; rank < ranks_.size; ++rank) {
      const Share& share = shares_[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; share.counts && i < tensors.size(); ++i)
        parts.push_back({tensors[i].narrow(0, share.begin, share.units()), rank});
    }
    std::optional<Messages> messages;
    group_.together([&] { messages.emplace(parts); });
    messages->exchange(
        [&](const at::Tensor& message, int rank) { group_.broadcast(message, rank); });
  }

 private:
  static std::int64_t row_bytes(const at::Tensor& tensor) {
    return static_cast<std::int64_t>(tensor.nbytes()) / tensor.size(0);
  }

  /// Returns the bytes of the largest share.
  std::int64_t most_bytes(const std::vector<at::Tensor>& tensors) const {
    std::int64_t in_row = 0, units = 0;
    for (const at::Tensor& tensor : tensors) in_row += row_bytes(tensor);
    for (const Share& share : shares_) units = std::max(units, share.units());
    return in_row * units;
  }

  const runner::RankOfRun& ranks_;
  RankGroup& group_;
  std::vector<Share> shares_;
};

}  // namespace

PartialReading divided_reading(const runner::RankOfRun& ranks, std::int64_t in_group,
                               RowsOfOthers needed) {
  const auto own = [&ranks, in_group](std::int64_t rows) {
    const Share share = share_of(rows, in_group, ranks.rank, ranks.size);
    return RowRange{share.begin, share.end};
  };
  const auto complete = [&ranks, in_group, needed](const NamedTensors& tensors,
                                                   const at::Tensor& present) {
    DividedRows rows(present.size(0), in_group, ranks);
    std::vector<at::Tensor> small = {present}, large, later;
    for (const auto& [name, tensor] : tensors) {
      const auto bytes = static_cast<std::int64_t>(tensor.nbytes()) / present.size(0);
      if (bytes <= kSmallRow) small.push_back(tensor);
      else (needed == RowsOfOthers::kAll ? large : later).push_back(tensor);
    }
    if (rows.fit(small)) rows.exchange_at_once(small);
    else large.insert(large.begin(), small.begin(), small.end());
    rows.exchange(large);
    const auto* const first = present.const_data_ptr<std::uint8_t>();
    const bool is_whole = std::all_of(first, first + present.size(0), [](auto one) { return one; });
    if (!is_whole) rows.exchange(later);
  };
  return {own, complete};
}

}  // namespace stages
