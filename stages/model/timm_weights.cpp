#include "stages/model/timm_weights.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <torch/nn/module.h>

#include "runner/shared/text/join.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

constexpr std::string_view kCounter = ".num_batches_tracked", kOfBackbone = "backbone.";
constexpr std::array<std::string_view, 3> kClassifiers = {"fc.", "classifier.", "head."};
constexpr std::size_t kWeightsShown = 12;

NamedTensors weights_of(const torch::nn::Module& network) {
  NamedTensors weights;
  for (const auto& item : network.named_parameters()) weights.set(item.key(), item.value());
  for (const auto& item : network.named_buffers()) weights.set(item.key(), item.value());
  return weights;
}

/// Returns the prefix under which `saved` contains the most names of `ours`.
std::string common_prefix(const NamedTensors& ours, const std::string& first,
                          const NamedTensors& saved) {
  std::string best;
  std::ptrdiff_t most = 0;
  for (const auto& [name, tensor] : saved) {
    if (!name.ends_with(first)) continue;
    const std::string prefix = name.substr(0, name.size() - first.size());
    if (!prefix.empty() && !prefix.ends_with('.')) continue;
    const std::ptrdiff_t found = std::ranges::count_if(
        ours, [&](const auto& item) { return saved.contains(prefix + item.first); });
    if (found > most) best = prefix;
    most = std::max(most, found);
  }
  return best;
}

/// True if the tensor belongs to a classifier of the backbone under `prefix`: "fc.weight",
/// "classifier.9.weight".
bool is_of_classifier(std::string_view name, std::string_view prefix) {
  if (prefix.ends_with(kOfBackbone) && !name.starts_with(prefix))
    prefix.remove_suffix(kOfBackbone.size());
  if (!name.starts_with(prefix)) return false;
  const std::string_view own = name.substr(prefix.size());
  return std::ranges::any_of(kClassifiers,
                             [&](std::string_view head) { return own.starts_with(head); });
}

bool has_names_of_cadene(const NamedTensors& saved) {
  return std::ranges::any_of(saved, [](const auto& item) {
    return item.first.find("se_module.") != item.first.npos ||
           item.first.find("layer0.conv1.") != item.first.npos ||
           item.first.find("last_linear.") != item.first.npos;
  });
}

}  // namespace

TimmWeightPlaces::TimmWeightPlaces(FeatureMaps& backbone, const NamedTensors& saved) {
  const NamedTensors ours = weights_of(backbone);
  report_.has_cadene_names = has_names_of_cadene(saved);
  report_.prefix = common_prefix(ours, backbone.named_parameters()[0].key(), saved);
  std::set<std::string> known;
  for (const auto& [name, weight] : ours) {
    const std::string theirs = report_.prefix + name;
    known.insert(theirs);
    if (!saved.contains(theirs)) {
      if (!name.ends_with(kCounter)) report_.missing.push_back(name);
      continue;
    }
    const at::Tensor& tensor = saved.at(theirs);
    if (tensor.sizes() != weight.sizes()) {
      report_.wrong_shape.push_back(name + " " + c10::str(tensor.sizes()) + " for " +
                                    c10::str(weight.sizes()));
      continue;
    }
    refuse_integers(name, tensor, weight);
    places_.emplace(theirs, weight);
  }
  for (const auto& [name, tensor] : saved) {
    if (known.contains(name)) continue;
    (is_of_classifier(name, report_.prefix) ? report_.left_out : report_.unused).push_back(name);
  }
  if (report_.fits()) report_.taken = static_cast<std::int64_t>(places_.size());
}

WeightSink TimmWeightPlaces::sink() {
  std::erase_if(places_, [](const auto& place) { return !has_memory(place.second); });
  return {.wants = [this](const std::string& name) { return places_.contains(name); },
          .take =
              [this](const WeightPiece& piece) {
                const at::Tensor all = places_.at(piece.tensor).detach().view({-1});
                all.narrow(0, piece.begin, piece.numbers.numel()).copy_(piece.numbers);
              }};
}

std::string TimmWeightsReport::text() const {
  std::string text = std::to_string(taken) + " tensors";
  if (!prefix.empty()) text += " under '" + prefix + "'";
  if (!left_out.empty()) text += "; left out: " + runner::listed(left_out, kWeightsShown);
  return text;
}

std::string TimmWeightsReport::misfits() const {
  std::string text;
  const auto add = [&](std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += (text.empty() ? "" : "; ") + std::to_string(names.size()) + " " + std::string(what) +
            ": " + runner::listed(names, kWeightsShown);
  };
  add("missing", missing);
  add("with a different shape", wrong_shape);
  add("unknown", unused);
  return text;
}

}  // namespace stages
