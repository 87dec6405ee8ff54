#include "stages/model/pretrained.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/model/adaptable_layer.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/weights/weights.h"

namespace stages {

std::int64_t grid_side(std::int64_t tokens) {
  const auto side =
      static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(tokens - 1))));
  return side * side == tokens - 1 ? side : 0;
}

std::int64_t timms_grid_side(std::int64_t rows) {
  return std::max(grid_side(rows), grid_side(rows + 1));
}

at::Tensor resize_positions(const at::Tensor& positions, std::int64_t tokens, PositionResize how) {
  const std::int64_t before = grid_side(positions.size(0)), after = grid_side(tokens),
                     width = positions.size(1);
  assert(before > 0 && after > 0);
  if (before == after) return positions;
  const bool is_double = positions.scalar_type() == at::kDouble && how == PositionResize::kBicubic;
  const at::Tensor grid = positions.to(is_double ? at::kDouble : at::kFloat)
                              .slice(0, 1)
                              .reshape({1, before, before, width})
                              .permute({0, 3, 1, 2});
  const at::Tensor resized =
      how == PositionResize::kBicubicAntialias
          ? at::_upsample_bicubic2d_aa(grid, {after, after}, /*align_corners=*/false)
          : at::upsample_bicubic2d(grid, {after, after}, /*align_corners=*/false);
  const at::Tensor rows = resized.permute({0, 2, 3, 1}).reshape({after * after, width});
  return torch::cat({positions.slice(0, 0, 1), rows.to(positions.scalar_type())});
}

namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::string_view kHead = "head.", kClassHead = "class_head.", kLogitBias = "logit_bias";
constexpr std::string_view kPositions = "vision_model.embeddings.position_embedding.weight";
constexpr std::string_view kProjection = "visual_projection.",
                           kProjectionBias = "visual_projection.bias",
                           kTextProjection = "text_projection.", kTextTower = "text_model.",
                           kImageTower = "vision_model.";
constexpr std::array<std::string_view, 3> kFusedParts = {"q_proj", "k_proj",
                                                         "v_proj"};  // the rows of a fused layer

/// Tensors that are not weights: model dimensions and position indices.
constexpr std::array<std::string_view, 6> kNoWeights = {"input_resolution",
                                                        "context_length",
                                                        "vocab_size",
                                                        "embeddings.position_ids",
                                                        "vision_model.embeddings.position_ids",
                                                        "text_model.embeddings.position_ids"};
/// Tensors that whole models have in addition to a vision tower. A name that ends in '.' stands for
/// all names that begin with it.
constexpr std::array<std::string_view, 13> kOfOtherParts = {
    "text_model.",          "text_projection.", "text_projection",  "logit_scale",
    "logit_bias",           "transformer.",     "token_embedding.", "ln_final.",
    "positional_embedding", "vit.pooler.",      "pooler.",          "mask_token",
    "embeddings.mask_token"};
constexpr std::array<std::string_view, 4> kOtherHeads = {"classifier.", "head.", "pre_logits.",
                                                         "make_classifier."};
/// The name of the class head that accompanies CLIP in the published training code for Stanford
/// Cars.
constexpr std::string_view kPublishedHead = "make_classifier.";

bool is_one_of(std::string_view name, auto& list) {
  return std::ranges::any_of(list, [&](std::string_view item) {
    return item.ends_with('.') ? name.starts_with(item) : name == item;
  });
}

std::string listed_weights(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 6;
  return runner::listed(names, kShown);
}

enum class Fit { kNone, kSame, kResized };

/// Returns kSame if the shapes differ at most in dimensions of size 1, and kResized if only the
/// number of positions differs. Records the grids in `report` if they differ.
Fit fit_of(const std::string& name, const at::Tensor& weight, const at::Tensor& values,
           PretrainedReport& report) {
  const at::Tensor tensor = values.squeeze();
  if (values.sizes() == weight.sizes() || tensor.sizes() == weight.sizes()) return Fit::kSame;
  if (name != kPositions || tensor.dim() != 2 || tensor.size(1) != weight.size(1))
    return Fit::kNone;
  const std::int64_t before = report.layout == WeightLayout::kTimm ? timms_grid_side(tensor.size(0))
                                                                   : grid_side(tensor.size(0)),
                     after = grid_side(weight.size(0));
  if (before == 0) return Fit::kNone;
  if (before != after) report.positions_before = before, report.positions_after = after;
  return Fit::kResized;
}

/// The parts that a network has.
struct NetworkParts {
  bool has_images = false, has_projection = false, has_texts = false;
};

/// Sorts the file's unused tensors into report.left_out and report.unexpected.
void sort_out(const std::vector<std::string>& unused, const NetworkParts& parts,
              PretrainedReport& report) {
  for (const std::string& name : unused) {
    const auto ours = our_name(report.layout, name);
    const bool is_head = is_one_of(name, kOtherHeads) || (ours && ours->starts_with(kHead));
    const bool is_spare_projection =
        !parts.has_projection && ours && ours->starts_with(kProjection);
    const bool is_of_images =
        !parts.has_images && ((ours && ours->starts_with(kImageTower)) || name == kLogitBias);
    const bool is_of_other_part = !parts.has_texts && is_one_of(name, kOfOtherParts);
    const bool is_elsewhere = is_head || is_spare_projection || is_of_images || is_of_other_part ||
                              is_one_of(name, kNoWeights);
    (is_elsewhere ? report.left_out : report.unexpected).push_back(name);
  }
}

}  // namespace

/// Where the values of one tensor go.
struct PretrainedPlaces::Place {
  enum class How {
    kInOrder,     ///< one after another, starting at `offset` in the weight
    kTransposed,  ///< the tensor's rows are the weight's columns
    kResized,     ///< position embeddings for another image size
  };
  at::Tensor weight;   // of the network
  std::string theirs;  // the tensor's name
  How how = How::kInOrder;
  std::int64_t offset = 0;          // where the first used value goes in the weight
  std::int64_t begin = 0, end = 0;  // range of the tensor's values that are used
  at::Tensor whole = {};            // the values of a tensor that cannot be placed piece by piece
};

/// Finds the tensors in the file that make up a weight, and remembers which ones were used.
class PretrainedPlaces::Source {
 public:
  Source(const NamedTensors& saved, WeightLayout layout) : layout_(layout) {
    for (const auto& [name, tensor] : saved) by_name_.emplace(name, tensor.to(at::kMeta));
  }

  /// Returns the shape of our weight `ours` in the file, and the places of the tensors that make it
  /// up. The shape is undefined if the file lacks the weight; the missing names are then added to
  /// `lacking`.
  std::pair<at::Tensor, std::vector<Place>> find(const std::string& ours,
                                                 std::vector<std::string>& lacking) {
    if (const auto theirs = library_name(layout_, ours)) {
      const at::Tensor tensor = take(*theirs, lacking);
      if (!tensor.defined()) return {};
      // OpenAI stores the projection transposed: x @ projection.
      const bool is_projection = ours.starts_with(kProjection) || ours.starts_with(kTextProjection);
      const bool is_transposed =
          layout_ == WeightLayout::kOpenClip && is_projection && tensor.dim() == 2;
      const auto how = is_transposed ? Place::How::kTransposed : Place::How::kInOrder;
      return {is_transposed ? tensor.t() : tensor,
              {{.theirs = *theirs, .how = how, .end = tensor.numel()}}};
    }
    if (const std::size_t at = ours.find(".qkv."); at != ours.npos)
      return joined(ours, at, lacking);
    for (std::size_t part = 0; part < kFusedParts.size(); ++part) {
      const std::size_t at = ours.find("." + std::string(kFusedParts[part]) + ".");
      if (at != ours.npos) return cut(ours, at, static_cast<std::int64_t>(part), lacking);
    }
    lacking.push_back(ours);
    return {};
  }

  /// If there is a tensor with this name and shape, marks it as used and returns true.
  bool take_of_shape(const std::string& theirs, at::IntArrayRef shape) {
    const auto found = by_name_.find(theirs);
    if (found == by_name_.end() || found->second.sizes() != shape) return false;
    taken_.insert(theirs);
    return true;
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

  /// Returns `ours` with the layer at `at` renamed to `layer`.
  static std::string with_layer(const std::string& ours, std::size_t at, std::string_view layer) {
    return ours.substr(0, at + 1) + std::string(layer) + ours.substr(ours.rfind('.'));
  }

  std::pair<at::Tensor, std::vector<Place>> joined(const std::string& ours, std::size_t at,
                                                   std::vector<std::string>& lacking) {
    std::vector<at::Tensor> rows;
    std::vector<Place> places;
    for (const std::string_view part : kFusedParts) {
      const auto theirs = library_name(layout_, with_layer(ours, at, part));
      if (!theirs) continue;
      rows.push_back(take(*theirs, lacking));
      const std::int64_t count = rows.back().defined() ? rows.back().numel() : 0;
      places.push_back({.theirs = *theirs,
                        .offset = static_cast<std::int64_t>(places.size()) * count,
                        .end = count});
    }
    const bool is_whole =
        rows.size() == kFusedParts.size() && std::ranges::all_of(rows, [&](const at::Tensor& part) {
          return part.defined() && part.sizes() == rows[0].sizes() && part.dim() > 0;
        });
    if (!is_whole) return {};
    return {torch::cat(rows), std::move(places)};
  }

  std::pair<at::Tensor, std::vector<Place>> cut(const std::string& ours, std::size_t at,
                                                std::int64_t part,
                                                std::vector<std::string>& lacking) {
    const auto theirs = library_name(layout_, with_layer(ours, at, "qkv"));
    if (!theirs) return {};
    const at::Tensor all = take(*theirs, lacking);
    if (!all.defined() || all.dim() == 0 || all.size(0) % 3 != 0) return {all, {}};
    const std::int64_t count = all.numel() / 3;
    return {all.chunk(3)[static_cast<std::size_t>(part)],
            {{.theirs = *theirs, .begin = part * count, .end = (part + 1) * count}}};
  }

  const WeightLayout layout_;
  std::map<std::string, at::Tensor> by_name_;  // on the Meta device
  std::set<std::string> taken_;
};

PretrainedPlaces::~PretrainedPlaces() = default;

PretrainedPlaces::PretrainedPlaces(torch::nn::Module& network, const NamedTensors& saved,
                                   PositionResize resize)
    : resize_(resize) {
  const auto wrapper = wrapper_of(saved);
  if (!wrapper) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : saved) names.push_back(name);
    throw StageError(
        ErrorCode::kDamagedWeights,
        "the weights contain no vision tower with known names: " + listed_weights(names))
        .with_help(
            "use weights of a CLIP, ViT or DINOv2 model from transformers, timm, OpenAI or "
            "open_clip");
  }
  report_.wrapper = *wrapper;
  const NamedTensors plain = unwrapped(saved, report_.wrapper);
  const auto layout = layout_of(plain);
  report_.layout = *layout;
  Source source(plain, *layout);
  NetworkParts parts;
  for (const auto& item : network.named_parameters()) {
    if (is_of_adapter(item.key())) continue;
    if (item.key().starts_with(kHead) || item.key().starts_with(kClassHead)) {
      const bool is_taken =
          item.key().starts_with(kClassHead) && take_class_head(item.key(), item.value(), source);
      if (!is_taken) report_.random.push_back(item.key());
      continue;
    }
    if (item.key() == kLogitBias) {
      take_logit_bias(item.value(), source);
      continue;
    }
    parts.has_images |= item.key().starts_with(kImageTower);
    parts.has_projection |= item.key().starts_with(kProjection);
    parts.has_texts |= item.key().starts_with(kTextTower);
    const bool is_timms_alone = item.key() == kProjectionBias && *layout != WeightLayout::kTimmClip;
    if (is_timms_alone) {
      zeros_.push_back(item.value());
      ++report_.taken;
      continue;
    }
    auto [shape, found] = source.find(item.key(), report_.missing);
    if (!shape.defined()) continue;
    const Fit fit = fit_of(item.key(), item.value(), shape, report_);
    if (fit == Fit::kNone) {
      report_.wrong_shape.push_back(library_name(*layout, item.key()).value_or(item.key()) + " " +
                                    c10::str(shape.sizes()) + " for " +
                                    c10::str(item.value().sizes()));
      continue;
    }
    for (Place& place : found) {
      refuse_integers(place.theirs, plain.at(place.theirs), item.value());
      place.weight = item.value();
      if (fit == Fit::kResized) place.how = Place::How::kResized;
      places_.push_back(std::move(place));
    }
    ++report_.taken;
  }
  sort_out(source.unused(), parts, report_);
  // timm stores CLIP's projection as a head with a bias, which is zero in OpenAI's weights. Other
  // libraries have no such bias.
  constexpr const char* kBias = "head.bias";
  if (*layout == WeightLayout::kTimmClip && parts.has_projection &&
      std::ranges::count(report_.left_out, kBias) > 0)
    bias_that_must_be_zero_ = kBias;
  std::ranges::sort(report_.missing);
  report_.missing.erase(std::unique(report_.missing.begin(), report_.missing.end()),
                        report_.missing.end());
  if (!report_.fits()) report_.taken = 0;
}

/// Loads the class head only if the number of classes is the same.
bool PretrainedPlaces::take_class_head(const std::string& ours, const at::Tensor& weight,
                                       Source& source) {
  const std::string theirs = std::string(kPublishedHead) + ours.substr(kClassHead.size());
  if (!source.take_of_shape(theirs, weight.sizes())) return false;
  places_.push_back({.weight = weight, .theirs = theirs, .end = weight.numel()});
  ++report_.taken;
  return true;
}

/// If the file has no such bias, the model keeps the value set by its options.
void PretrainedPlaces::take_logit_bias(const at::Tensor& weight, Source& source) {
  const std::string theirs(kLogitBias);
  if (!source.take_of_shape(theirs, weight.sizes())) return;
  places_.push_back({.weight = weight, .theirs = theirs, .end = weight.numel()});
  ++report_.taken;
}

WeightSink PretrainedPlaces::sink() {
  const auto is_elsewhere = [](const at::Tensor& weight) { return !has_memory(weight); };
  std::erase_if(zeros_, is_elsewhere);
  std::erase_if(places_, [&](const Place& place) { return is_elsewhere(place.weight); });
  for (const at::Tensor& weight : zeros_) weight.detach().zero_();
  return {.wants =
              [this](const std::string& saved) {
                const std::string name = unwrapped_name(saved, report_.wrapper);
                return name == bias_that_must_be_zero_ ||
                       std::ranges::count(places_, name, &Place::theirs) > 0;
              },
          .take =
              [this](const WeightPiece& piece) {
                take({unwrapped_name(piece.tensor, report_.wrapper), piece.begin, piece.numbers});
              }};
}

void PretrainedPlaces::take(const WeightPiece& piece) {
  const torch::NoGradGuard no_graph;
  if (piece.tensor == bias_that_must_be_zero_ &&
      piece.numbers.count_nonzero().item<std::int64_t>() > 0) {
    std::erase(report_.left_out, piece.tensor);
    report_.unexpected.push_back(piece.tensor + ", which is not zero");
    bias_that_must_be_zero_.clear();
  }
  const std::int64_t piece_end = piece.begin + piece.numbers.numel();
  for (Place& place : places_) {
    if (place.theirs != piece.tensor) continue;
    if (place.how == Place::How::kInOrder) {
      const std::int64_t begin = std::max(piece.begin, place.begin),
                         end = std::min(piece_end, place.end);
      if (begin >= end) continue;
      const at::Tensor to = place.weight.detach().view(-1);
      to.narrow(0, place.offset + begin - place.begin, end - begin)
          .copy_(piece.numbers.narrow(0, begin - piece.begin, end - begin));
      continue;
    }
    if (!place.whole.defined())
      place.whole = torch::empty({place.end}, piece.numbers.scalar_type());
    place.whole.narrow(0, piece.begin, piece.numbers.numel()).copy_(piece.numbers);
    if (piece_end < place.end) continue;
    if (place.how == Place::How::kTransposed) {
      place.weight.detach().t().copy_(place.whole.view(place.weight.t().sizes()));
    } else {
      const auto type = at::promote_types(place.weight.scalar_type(), at::kFloat);
      at::Tensor positions = place.whole.view({-1, place.weight.size(1)}).to(type);
      if (grid_side(positions.size(0)) == 0)
        positions = torch::cat({torch::zeros_like(positions.slice(0, 0, 1)), positions});
      place.weight.detach().copy_(resize_positions(positions, place.weight.size(0), resize_));
    }
    place.whole.reset();
  }
}

PretrainedReport load_pretrained(torch::nn::Module& network, const NamedTensors& saved,
                                 PositionResize resize) {
  PretrainedPlaces places(network, saved, resize);
  if (!places.report().fits()) return places.report();
  const WeightSink sink = places.sink();
  const auto give = [&](bool is_head) {
    for (const auto& [name, tensor] : saved) {
      const bool has_numbers = tensor.defined() && !tensor.is_meta();
      if (places.report().fits() && has_numbers && name.starts_with(kHead) == is_head &&
          sink.wants(name))
        sink.take({name, 0, tensor.contiguous().view(-1)});
    }
  };
  give(true);  // the weight first, since its bias may not fit
  give(false);
  return places.report();
}

std::string PretrainedReport::text() const {
  std::string text = std::to_string(taken) + " weights of " + std::string(name(layout));
  if (!wrapper.empty()) text += ", all under '" + wrapper + "'";
  const auto grid = [](std::int64_t side) {
    return std::to_string(side) + " x " + std::to_string(side);
  };
  if (positions_before > 0) {
    text += "; position embeddings resized from " + grid(positions_before) + " to " +
            grid(positions_after);
  }
  if (!left_out.empty()) text += "; left out: " + listed_weights(left_out);
  if (!random.empty()) text += "; random: " + listed_weights(random);
  return text;
}

std::string PretrainedReport::misfits() const {
  std::string text;
  const auto add = [&](const std::vector<std::string>& names, const char* what) {
    if (names.empty()) return;
    text += (text.empty() ? "" : ", ") + std::to_string(names.size()) + " " + what + " (" +
            listed_weights(names) + ")";
  };
  add(missing, "missing");
  add(unexpected, "unexpected");
  add(wrong_shape, "with a different shape");
  return text;
}

}  // namespace stages
