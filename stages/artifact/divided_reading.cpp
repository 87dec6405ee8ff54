#include "stages/artifact/divided_reading.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "stages/ranks/messages.h"
#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

/// Memory for the small rows of a batch. It is allocated once, so that no rank can run out of
/// memory when they are exchanged.
constexpr std::size_t kRoom = std::size_t{32} << 10;
using Room = std::vector<std::uint8_t>;

/// The rows of a batch, divided among ranks.
class DividedRows {
 public:
  DividedRows(std::int64_t rows, std::int64_t in_group, const runner::RankOfRun& ranks)
      : ranks_(ranks), group_(*group_of(ranks)) {
    for (int rank = 0; rank < ranks.size; ++rank)
      shares_.push_back(share_of(rows, in_group, rank, ranks.size));
  }

  /// True if exchange_at_once() can send the tensors.
  static bool fit(const std::vector<at::Tensor>& tensors) {
    std::size_t bytes = 0;
    for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
    return bytes <= kRoom && std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
             return tensor.is_contiguous();
           });
  }

  /// Sends all rows of the tensors to every rank, in one message. Allocates nothing.
  void exchange_at_once(const std::vector<at::Tensor>& tensors, Room& room) {
    std::size_t bytes = 0;
    const auto with_rows = [&](const auto& use) {  // of each tensor and rank
      bytes = 0;
      for (const at::Tensor& tensor : tensors) {
        const std::size_t in_row = tensor.nbytes() / static_cast<std::size_t>(tensor.size(0));
        for (int rank = 0; rank < ranks_.size; ++rank) {
          const Share& share = shares_[static_cast<std::size_t>(rank)];
          if (!share.counts) continue;
          const std::size_t begin = static_cast<std::size_t>(share.begin) * in_row,
                            size = static_cast<std::size_t>(share.units()) * in_row;
          use(rank, static_cast<std::uint8_t*>(tensor.mutable_data_ptr()) + begin,
              room.data() + bytes, size);
          bytes += size;
        }
      }
    };
    with_rows([&](int rank, const std::uint8_t* row, std::uint8_t* place, std::size_t size) {
      if (rank == ranks_.rank) std::memcpy(place, row, size);
      else std::memset(place, 0, size);
    });
    const auto all = static_cast<std::int64_t>(bytes);
    group_.sum(at::from_blob(room.data(), {all}, torch::kByte));  // other ranks send zeros
    with_rows([&](int rank, std::uint8_t* row, const std::uint8_t* place, std::size_t size) {
      if (rank != ranks_.rank) std::memcpy(row, place, size);
    });
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
  const auto room = std::make_shared<Room>(kRoom);
  const auto complete = [&ranks, in_group, needed, room](const NamedTensors& tensors,
                                                         const at::Tensor& present) {
    DividedRows rows(present.size(0), in_group, ranks);
    std::vector<at::Tensor> small = {present}, large, later;
    for (const auto& [name, tensor] : tensors) {
      const auto bytes = static_cast<std::int64_t>(tensor.nbytes()) / present.size(0);
      if (bytes <= kSmallRow) small.push_back(tensor);
      else (needed == RowsOfOthers::kAll ? large : later).push_back(tensor);
    }
    if (DividedRows::fit(small)) rows.exchange_at_once(small, *room);
    else large.insert(large.begin(), small.begin(), small.end());
    rows.exchange(large);
    const auto* const first = present.const_data_ptr<std::uint8_t>();
    const bool is_whole = std::all_of(first, first + present.size(0), [](auto one) { return one; });
    if (!is_whole) rows.exchange(later);
  };
  return {own, complete};
}

}  // namespace stages
