// The members of Optimizer that update parameters with quantized moments.

#include "stages/train/optimizer.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "stages/train/single_rules.h"

namespace stages {
namespace {

/// The elements of a chunk: large enough for a GPU, small enough for a cache.
constexpr std::int64_t kChunk = 1 << 18;

/// Returns the tensor, which has the parameter's layout, as rows: the elements if the parameter is
/// contiguous, otherwise the slices along the first dimension. torch gives gradients the layout of
/// their parameter.
at::Tensor as_rows(const at::Tensor& tensor, const at::Tensor& parameter) {
  return parameter.is_contiguous() ? tensor.view(-1) : tensor;
}

/// Returns how many rows are updated together. All but the last chunk contain whole blocks.
std::int64_t rows_at_once(const OptimizerOptions& rule, const at::Tensor& rows) {
  const std::int64_t count = rows.size(0), elements = rows.numel() / count;
  const bool is_dense = rows.stride(0) == elements;
  if (!is_dense || std::holds_alternative<LambOptions>(rule)) return count;
  const std::int64_t unit = kQuantizedBlock / std::gcd(elements, kQuantizedBlock);
  return std::min(count, unit * std::max<std::int64_t>(1, kChunk / (unit * elements)));
}

}  // namespace

at::Tensor Optimizer::first_chunk(const Slot& slot) const {
  const at::Tensor rows = as_rows(slot.parameter.detach(), slot.parameter);
  return rows.narrow(0, 0, rows_at_once(options_[slot.group], rows));
}

std::vector<BlockPart> Optimizer::chunk_parts(const Slot& slot, const at::Tensor& chunk) const {
  std::vector<BlockPart> all = BlockQuantizer::scratch_parts(chunk.numel());
  all.push_back({{}, at::kFloat});  // the age
  all.resize(all.size() + quantized_moments(parts(slot)).size(), part_like(chunk));
  return all;
}

const BlockQuantizer& Optimizer::quantizer(const QuantizedMoment& moment) const {
  return moment.is_signed ? *signed_ : *unsigned_;
}

void Optimizer::update_quantized(Slot& slot, const at::Tensor& scratch,
                                 const std::optional<at::Tensor>& skip) {
  const std::vector<QuantizedMoment> moments = quantized_moments(parts(slot));
  const at::Tensor parameter = as_rows(slot.parameter.detach(), slot.parameter),
                   gradient = as_rows(slot.parameter.grad(), slot.parameter);
  const std::int64_t count = parameter.size(0), at_once = first_chunk(slot).size(0),
                     elements = parameter.numel() / count;
  for (std::int64_t first = 0; first < count; first += at_once) {
    const std::int64_t rows = std::min(at_once, count - first), begin = first * elements,
                       size = rows * elements;
    Slot chunk{.name = slot.name,
               .group = slot.group,
               .parameter = parameter.narrow(0, first, rows),
               .fresh = slot.fresh};
    chunk.parameter.mutable_grad() = gradient.narrow(0, first, rows);
    const std::vector<BlockPart> needed = chunk_parts(slot, chunk.parameter);
    const std::vector<at::Tensor> own = parts_within(scratch, needed);
    const auto room = BlockQuantizer::scratch_within(scratch, size);
    const auto each = [&](const auto& convert) {
      auto moment = own.end() - static_cast<std::ptrdiff_t>(moments.size());
      for (const QuantizedMoment& one : moments) {
        convert(
            one, *moment++, (slot.state.*one.moment).view(-1).narrow(0, begin, size),
            (slot.state.*one.absmax).narrow(0, begin / kQuantizedBlock, quantized_blocks(size)));
      }
    };
    each([&](const QuantizedMoment& one, const at::Tensor& moment, const auto&... stored) {
      quantizer(one).dequantize(stored..., moment, room);
      chunk.state.*one.moment = moment;
    });
    const bool is_last = first + rows == count;
    const at::Tensor age = own[own.size() - moments.size() - 1];
    // Every chunk uses the same step count; the last one stores it for the parameter.
    if (slot.state.age.defined())
      chunk.state.age = is_last ? slot.state.age : age.copy_(slot.state.age);
    const std::int64_t used = bytes_of(needed);
    update_whole({&chunk}, scratch.narrow(0, used, scratch.numel() - used), skip, {});
    each([&](const QuantizedMoment& one, const at::Tensor& moment, const auto&... stored) {
      quantizer(one).quantize(moment, stored..., room, skip);
    });
  }
  take_step(slot, skip);
}

}  // namespace stages
