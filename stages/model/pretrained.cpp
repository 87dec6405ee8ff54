#include "stages/model/pretrained.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include <torch/torch.h>

#include "runner/stage/stage.h"
#include "runner/text/join.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::string_view kHead = "head.";
constexpr std::string_view kPositions = "vision_model.embeddings.position_embedding.weight";
constexpr std::string_view kProjection = "visual_projection.", kProjectionBias = "visual_projection.bias";
constexpr std::array<std::string_view, 3> kFusedParts = {"q_proj", "k_proj", "v_proj"};  // the rows of a fused layer

/// Tensors that whole models have besides a vision tower. A name that ends in '.' stands for all below it.
constexpr std::array<std::string_view, 16> kOfOtherParts = {"text_model.",
                                                            "text_projection.",
                                                            "text_projection",
                                                            "logit_scale",
                                                            "logit_bias",
                                                            "transformer.",
                                                            "token_embedding.",
                                                            "ln_final.",
                                                            "positional_embedding",
                                                            "input_resolution",
                                                            "context_length",
                                                            "vocab_size",
                                                            "embeddings.position_ids",
                                                            "vision_model.embeddings.position_ids",
                                                            "vit.pooler.",
                                                            "pooler."};
constexpr std::array<std::string_view, 3> kOtherHeads = {"classifier.", "head.", "pre_logits."};

bool is_one_of(std::string_view name, auto& list) {
  return std::ranges::any_of(
      list, [&](std::string_view item) { return item.ends_with('.') ? name.starts_with(item) : name == item; });
}

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

std::string listed_weights(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 6;
  return runner::listed(names, kShown);
}

/// The file's tensors, and which of them have been asked for.
class Source {
 public:
  Source(const NamedTensors& saved, WeightLayout layout) : layout_(layout) {
    for (const auto& [name, tensor] : saved) by_name_.emplace(name, tensor);
  }

  /// The values of our weight `ours`, in the file's shape or cut and joined to ours. Undefined where the file lacks
  /// them, with their names there in `lacking`.
  at::Tensor get(const std::string& ours, std::vector<std::string>& lacking) {
    if (const auto theirs = library_name(layout_, ours)) {
      const at::Tensor tensor = take(*theirs, lacking);
      // Theirs is applied from the right.
      const bool is_transposed = layout_ == WeightLayout::kOpenClip && ours.starts_with(kProjection);
      return is_transposed && tensor.defined() && tensor.dim() == 2 ? tensor.t() : tensor;
    }
    if (const std::size_t at = ours.find(".qkv."); at != ours.npos) return joined(ours, at, lacking);
    for (std::size_t part = 0; part < kFusedParts.size(); ++part) {
      const std::size_t at = ours.find("." + std::string(kFusedParts[part]) + ".");
      if (at != ours.npos) return cut(ours, at, part, lacking);
    }
    lacking.push_back(ours);
    return {};
  }

  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : by_name_) {
      if (!taken_.contains(name)) names.push_back(name);
    }
    return names;
  }

 private:
  at::Tensor take(const std::string& theirs, std::vector<std::string>& lacking) {
    const auto found = by_name_.find(theirs);
    if (found == by_name_.end()) {
      lacking.push_back(theirs);
      return {};
    }
    taken_.insert(theirs);
    return found->second;
  }

  /// `ours` with the layer at `at` called `layer`.
  static std::string with_layer(const std::string& ours, std::size_t at, std::string_view layer) {
    return ours.substr(0, at + 1) + std::string(layer) + ours.substr(ours.rfind('.'));
  }

  at::Tensor joined(const std::string& ours, std::size_t at, std::vector<std::string>& lacking) {
    std::vector<at::Tensor> rows;
    for (const std::string_view part : kFusedParts) {
      const auto theirs = library_name(layout_, with_layer(ours, at, part));
      if (theirs) rows.push_back(take(*theirs, lacking));
    }
    const bool is_whole = rows.size() == kFusedParts.size() && std::ranges::all_of(rows, [&](const at::Tensor& part) {
                            return part.defined() && part.sizes() == rows[0].sizes() && part.dim() > 0;
                          });
    return is_whole ? torch::cat(rows) : at::Tensor();
  }

  at::Tensor cut(const std::string& ours, std::size_t at, std::size_t part, std::vector<std::string>& lacking) {
    const auto theirs = library_name(layout_, with_layer(ours, at, "qkv"));
    if (!theirs) return {};
    const at::Tensor all = take(*theirs, lacking);
    if (!all.defined() || all.dim() == 0 || all.size(0) % 3 != 0) return all;
    return all.chunk(3)[part];
  }

  const WeightLayout layout_;
  std::map<std::string, at::Tensor> by_name_;
  std::set<std::string> taken_;
};

/// `values` with the shape of `weight`, where they differ in dimensions of 1 or in the number of positions alone.
std::optional<at::Tensor> fitted(const std::string& name, const at::Tensor& weight, const at::Tensor& values,
                                 PositionResize resize, PretrainedReport& report) {
  if (values.sizes() == weight.sizes()) return values;
  const at::Tensor tensor = values.squeeze();
  if (tensor.sizes() == weight.sizes()) return tensor;
  const bool is_grid =
      name == kPositions && tensor.dim() == 2 && tensor.size(1) == weight.size(1) && grid_side(tensor.size(0)) > 0;
  if (!is_grid) return std::nullopt;
  report.positions_before = grid_side(tensor.size(0));
  report.positions_after = grid_side(weight.size(0));
  return resize_positions(tensor.to(weight.scalar_type()), weight.size(0), resize);
}

/// What is in the file and was not asked for.
void sort_out(const std::vector<std::string>& unused, bool has_projection, PretrainedReport& report) {
  for (const std::string& name : unused) {
    const auto ours = our_name(report.layout, name);
    const bool is_head = is_one_of(name, kOtherHeads) || (ours && ours->starts_with(kHead));
    const bool is_spare_projection = !has_projection && ours && ours->starts_with(kProjection);
    const bool is_elsewhere = is_head || is_spare_projection || is_one_of(name, kOfOtherParts);
    (is_elsewhere ? report.left_out : report.unexpected).push_back(name);
  }
}

/// timm keeps CLIP's projection as a head with a bias, which is zero in OpenAI's weights: nobody else has one.
void check_left_out_bias(const NamedTensors& saved, bool has_projection, PretrainedReport& report) {
  if (report.layout != WeightLayout::kTimmClip || std::erase(report.left_out, "head.bias") == 0) return;
  const at::Tensor& bias = saved.at("head.bias");  // without numbers there is nothing to say of them
  const bool has_effect = has_projection && !bias.is_meta() && bias.count_nonzero().item<std::int64_t>() > 0;
  (has_effect ? report.unexpected : report.left_out)
      .push_back(has_effect ? "head.bias, which is not zero" : "head.bias");
}

}  // namespace

PretrainedReport load_pretrained(torch::nn::Module& network, const NamedTensors& saved, PositionResize resize) {
  const auto layout = layout_of(saved);
  if (!layout) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : saved) names.push_back(name);
    throw StageError(ErrorCode::kDamagedWeights,
                     "the weights have no vision tower with known names: " + listed_weights(names))
        .with_help("give those of a CLIP or ViT of transformers, timm, OpenAI or open_clip");
  }
  PretrainedReport report;
  report.layout = *layout;
  Source source(saved, *layout);
  bool has_projection = false;
  std::vector<std::pair<at::Tensor, at::Tensor>> values;  // a weight and what it is to be
  for (const auto& item : network.named_parameters()) {
    if (item.key().starts_with(kHead)) {
      report.random.push_back(item.key());
      continue;
    }
    has_projection |= item.key().starts_with(kProjection);
    const bool is_timms_alone = item.key() == kProjectionBias && *layout != WeightLayout::kTimmClip;
    const at::Tensor found = is_timms_alone ? torch::zeros_like(item.value()) : source.get(item.key(), report.missing);
    if (!found.defined()) continue;
    if (const auto tensor = fitted(item.key(), item.value(), found, resize, report)) {
      values.emplace_back(item.value(), *tensor);
      continue;
    }
    report.wrong_shape.push_back(library_name(*layout, item.key()).value_or(item.key()) + " " + shape_text(found) +
                                 " for " + shape_text(item.value()));
  }
  sort_out(source.unused(), has_projection, report);
  check_left_out_bias(saved, has_projection, report);
  std::ranges::sort(report.missing);
  report.missing.erase(std::unique(report.missing.begin(), report.missing.end()), report.missing.end());
  if (!report.fits()) return report;
  const torch::NoGradGuard no_graph;
  for (auto& [weight, value] : values) {
    const bool may_share = value.scalar_type() == weight.scalar_type() && value.device() == weight.device() &&
                           value.is_contiguous() && value.storage_offset() == 0;
    if (may_share) weight.set_data(value);
    else weight.copy_(value);
  }
  report.taken = static_cast<std::int64_t>(values.size());
  return report;
}

std::string PretrainedReport::text() const {
  std::string text = std::to_string(taken) + " weights of " + std::string(name(layout));
  const auto grid = [](std::int64_t side) { return std::to_string(side) + " x " + std::to_string(side); };
  if (positions_before > 0) {
    text += "; position embeddings resized from " + grid(positions_before) + " to " + grid(positions_after);
  }
  if (!left_out.empty()) text += "; left out: " + listed_weights(left_out);
  if (!random.empty()) text += "; random: " + listed_weights(random);
  return text;
}

std::string PretrainedReport::misfits() const {
  std::string text;
  const auto add = [&](const std::vector<std::string>& names, const char* what) {
    if (names.empty()) return;
    text += (text.empty() ? "" : ", ") + std::to_string(names.size()) + " " + what + " (" + listed_weights(names) + ")";
  };
  add(missing, "missing");
  add(unexpected, "unexpected");
  add(wrong_shape, "of another shape");
  return text;
}

}  // namespace stages
