#include "stages/contrastive/caption_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <torch/types.h>

namespace stages {
namespace {

using Numbers = std::vector<std::int64_t>;

/// The distinct captions of a batch. Equal captions are merged within groups of samples.
struct Distinct {
  Numbers captions;  // in order of first occurrence
  Numbers rows;      // for each sample, an index into `captions`
  Numbers first;     // for each sample, the first row with an equal caption
  Numbers offsets;   // where each sample's own rows begin, followed by the end
};

Distinct distinct(std::int64_t samples, const CaptionRowsOptions& options, auto caption_of) {
  Distinct result;
  std::map<std::int64_t, std::int64_t> row_of;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    if (options.within > 0 && sample % options.within == 0) row_of.clear();
    const auto next = static_cast<std::int64_t>(result.captions.size());
    result.offsets.push_back(next);
    const std::int64_t caption = caption_of(sample);
    const auto [entry, is_new] = row_of.try_emplace(caption, next);
    const bool has_row = is_new || !options.encodes_once;
    if (has_row) result.captions.push_back(caption);
    result.rows.push_back(has_row ? next : entry->second);
    result.first.push_back(entry->second);
  }
  result.offsets.push_back(static_cast<std::int64_t>(result.captions.size()));
  return result;
}

}  // namespace

CaptionRows::CaptionRows(TokenizedTexts captions, const CaptionRowsOptions& options)
    : captions_(std::move(captions)), options_(options) {}

Batch CaptionRows::arranged(const Batch& batch, const NamedTensors& extra,
                            const at::Tensor& more) const {
  const at::Tensor numbers = batch["caption"].contiguous();
  const bool is_meta = numbers.is_meta();
  const std::int64_t known = captions_.ids.size(0);
  const auto* const number = is_meta ? nullptr : numbers.const_data_ptr<std::int64_t>();
  const Distinct texts = distinct(batch.units(), options_, [&](std::int64_t sample) {
    return is_meta ? std::min(sample, known - 1) : number[sample];
  });
  std::int64_t length = captions_.ids.size(1);
  if (options_.trims) {
    length = 0;
    const auto see = [&](std::int64_t caption) {
      length = std::max(length, captions_.lengths[static_cast<std::size_t>(caption)]);
    };
    if (is_meta) length = *std::ranges::max_element(captions_.lengths);
    else std::ranges::for_each(texts.captions, see);
  }
  const auto rows = static_cast<std::int64_t>(texts.captions.size());
  const at::Tensor tokens =
      is_meta ? torch::empty({rows, length}, captions_.ids.options().device(at::kMeta))
              : captions_.ids.narrow(1, 0, length).index_select(0, torch::tensor(texts.captions));

  Numbers each(static_cast<std::size_t>(batch.units()) + 1);
  std::iota(each.begin(), each.end(), 0);
  NamedTensors tensors;
  std::map<std::string, Numbers> offsets;
  const auto add = [&](const std::string& name, const at::Tensor& tensor, const Numbers& own) {
    tensors.set(name, tensor);
    offsets[name] = own;
  };
  for (const auto& [name, tensor] : batch.tensors()) {
    if (name != "caption") add(name, tensor, each);
  }
  for (const auto& [name, tensor] : extra) add(name, tensor, each);
  add("caption_row", is_meta ? numbers : torch::tensor(texts.rows), each);
  add("equal_caption", is_meta ? torch::empty_like(numbers) : torch::tensor(texts.first), each);
  add("tokens", tokens, texts.offsets);
  if (more.defined()) {
    Numbers all(each.size(), more.size(0));
    all.front() = 0;
    add("more_tokens", is_meta ? more.to(at::kMeta) : more, all);
  }
  return Batch(std::move(tensors), batch.units(), std::move(offsets));
}

}  // namespace stages
