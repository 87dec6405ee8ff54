#include "stages/train/encoded_parts.h"

#include <torch/types.h>

namespace stages {

void EncodedParts::add(NamedTensors encoded) { parts_.push_back(std::move(encoded)); }

NamedTensors EncodedParts::join() {
  NamedTensors joined;
  names_.clear();
  offsets_.clear();
  for (const auto& [name, first] : parts_.front()) {
    names_.push_back(name);
    std::vector<std::int64_t>& offsets = offsets_.emplace_back();
    if (first.dim() == 0) {
      joined.set(name, first);
      continue;
    }
    std::vector<at::Tensor> rows;
    offsets.push_back(0);
    for (const NamedTensors& part : parts_) {
      rows.push_back(part.at(name));
      offsets.push_back(offsets.back() + rows.back().size(0));
    }
    joined.set(name, torch::cat(rows));
  }
  parts_.clear();
  return joined;
}

NamedTensors EncodedParts::cut(const NamedTensors& joined, std::size_t part) const {
  NamedTensors result;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (!joined.contains(names_[i])) continue;
    const at::Tensor& whole = joined.at(names_[i]);
    if (!offsets_[i].empty()) result.set(names_[i], whole.slice(0, offsets_[i][part], offsets_[i][part + 1]));
    else if (part == 0) result.set(names_[i], whole);
  }
  return result;
}

}  // namespace stages
