#include "stages/model/resnet_weights.h"

#include <algorithm>
#include <set>
#include <sstream>

#include <torch/types.h>

#include "runner/shared/text/join.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

constexpr std::string_view kFirstWeight = "conv1.weight", kFirstOfBlocks = "layer1.0.conv1.weight",
                           kBatchCount = ".num_batches_tracked", kHeadOfClasses = "fc.";
constexpr std::size_t kNamesShown = 6;

/// What stands before torchvision's names; empty where there are no such names.
std::string prefix_of(const NamedTensors& saved) {
  for (const auto& [name, tensor] : saved) {
    if (!name.ends_with(kFirstOfBlocks)) continue;
    const std::string prefix = name.substr(0, name.size() - kFirstOfBlocks.size());
    if (saved.contains(prefix + std::string(kFirstWeight))) return prefix;
  }
  return "";
}

std::string sizes_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

/// "layer1.2" of "layer1.2.conv1.weight", and "conv1" of "conv1.weight".
std::string block_of(const std::string& name) {
  const std::size_t first = name.find('.');
  return name.substr(0, name.starts_with("layer") ? name.find('.', first + 1) : first);
}

}  // namespace

ResNetPlaces::ResNetPlaces(ResNet& network, const NamedTensors& saved) {
  report_.prefix = prefix_of(saved);
  std::set<std::string> ours;
  const auto place = [&](const std::string& name, const at::Tensor& weight) {
    const std::string theirs = report_.prefix + name;
    ours.insert(theirs);
    if (!saved.contains(theirs)) {
      if (!name.ends_with(kBatchCount)) report_.missing.push_back(name);
      return;
    }
    const at::Tensor& tensor = saved.at(theirs);
    if (tensor.sizes() != weight.sizes()) {
      report_.wrong_shape.push_back(name + " " + sizes_text(tensor) + " for " + sizes_text(weight));
      return;
    }
    refuse_integers(name, tensor, weight);
    places_.emplace(theirs, weight);
  };
  for (const auto& item : network.named_parameters()) place(item.key(), item.value());
  for (const auto& item : network.named_buffers()) place(item.key(), item.value());
  for (const auto& [name, tensor] : saved) {
    if (ours.contains(name)) continue;
    const bool is_head = name.starts_with(report_.prefix + std::string(kHeadOfClasses));
    (is_head ? report_.left_out : report_.unused).push_back(name);
  }
  if (report_.fits()) report_.taken = static_cast<std::int64_t>(places_.size());
}

WeightSink ResNetPlaces::sink() {
  return {.wants = [this](const std::string& name) { return places_.contains(name); },
          .take =
              [this](const WeightPiece& piece) {
                const at::Tensor all = places_.at(piece.tensor).detach().view({-1});
                all.narrow(0, piece.begin, piece.numbers.numel()).copy_(piece.numbers);
              }};
}

std::string ResNetWeightsReport::text(std::int64_t depth) const {
  std::string text = std::to_string(taken) + " tensors of ResNet-" + std::to_string(depth);
  if (!prefix.empty()) text += ", below '" + prefix + "'";
  if (!left_out.empty()) text += "; left out: " + runner::listed(left_out, kNamesShown);
  if (!unused.empty()) text += "; without a place: " + runner::listed(unused, kNamesShown);
  return text;
}

std::string ResNetWeightsReport::misfits() const {
  std::string text;
  if (!missing.empty()) {
    std::vector<std::string> parts;
    for (const std::string& name : missing) {
      const std::string part = block_of(name);
      if (std::ranges::find(parts, part) == parts.end()) parts.push_back(part);
    }
    constexpr std::size_t kPartsShown = 16;
    text = std::to_string(missing.size()) + " tensors are missing, of " + runner::listed(parts, kPartsShown);
  }
  if (!wrong_shape.empty()) {
    text += (text.empty() ? "" : "; ") + std::to_string(wrong_shape.size()) +
            " have another shape: " + runner::listed(wrong_shape, kNamesShown);
  }
  return text;
}

}  // namespace stages
