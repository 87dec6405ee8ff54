#include "stages/artifact/divided_reading.h"

#include <algorithm>
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

  /// Sends all rows of the tensors to every rank.
  void exchange(const std::vector<at::Tensor>& tensors) {
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
    std::vector<at::Tensor> at_once = {present}, later;
    for (const auto& [name, tensor] : tensors) {
      const auto bytes = static_cast<std::int64_t>(tensor.nbytes()) / present.size(0);
      const bool is_needed = needed == RowsOfOthers::kAll || bytes <= kSmallRow;
      (is_needed ? at_once : later).push_back(tensor);
    }
    rows.exchange(at_once);
    const auto* const first = present.const_data_ptr<std::uint8_t>();
    const bool is_whole = std::all_of(first, first + present.size(0), [](auto one) { return one; });
    if (!is_whole) rows.exchange(later);
  };
  return {own, complete};
}

}  // namespace stages
