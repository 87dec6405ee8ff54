#include "stages/model/weight_names.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"

namespace stages {
namespace {

/// Our name and the library's name. Each stands for itself and all names below it; if ours ends in
/// "weight" or "bias", only for itself.
using Pair = std::pair<std::string_view, std::string_view>;

/// Our prefixes before the number of a block.
constexpr std::string_view kBlocks = "vision_model.encoder.layers.",
                           kTextBlocks = "text_model.encoder.layers.";

struct Names {
  std::string_view prefix;            ///< prefix of all names except `outside` and the text tower's
  std::string_view blocks;            ///< before the number of a block
  std::span<const Pair> around;       ///< outside the blocks
  std::span<const Pair> in_block;     ///< after the number of a block
  std::span<const Pair> outside;      ///< without the prefix
  std::string_view text_blocks = {};  ///< `blocks` of the text tower; empty: there is none
};

constexpr std::array<Pair, 5> kClipAround = {
    {{"vision_model.embeddings.class_embedding", "embeddings.class_embedding"},
     {"vision_model.embeddings.patch_embedding", "embeddings.patch_embedding"},
     {"vision_model.embeddings.position_embedding", "embeddings.position_embedding"},
     {"vision_model.pre_layrnorm", "pre_layrnorm"},
     {"vision_model.post_layernorm", "post_layernorm"}}};
constexpr std::array<Pair, 8> kClipInBlock = {{{"self_attn.q_proj", "self_attn.q_proj"},
                                               {"self_attn.k_proj", "self_attn.k_proj"},
                                               {"self_attn.v_proj", "self_attn.v_proj"},
                                               {"self_attn.out_proj", "self_attn.out_proj"},
                                               {"layer_norm1", "layer_norm1"},
                                               {"layer_norm2", "layer_norm2"},
                                               {"mlp.fc1", "mlp.fc1"},
                                               {"mlp.fc2", "mlp.fc2"}}};
constexpr std::array<Pair, 6> kClipOutside = {
    {{"visual_projection", "visual_projection"},
     {"text_projection", "text_projection"},
     {"logit_scale", "logit_scale"},
     {"text_model.embeddings.token_embedding", "text_model.embeddings.token_embedding"},
     {"text_model.embeddings.position_embedding", "text_model.embeddings.position_embedding"},
     {"text_model.final_layer_norm", "text_model.final_layer_norm"}}};

constexpr std::array<Pair, 4> kVitAround = {
    {{"vision_model.embeddings.class_embedding", "embeddings.cls_token"},
     {"vision_model.embeddings.patch_embedding", "embeddings.patch_embeddings.projection"},
     {"vision_model.embeddings.position_embedding.weight", "embeddings.position_embeddings"},
     {"vision_model.post_layernorm", "layernorm"}}};
constexpr std::array<Pair, 8> kVitInBlock = {{{"self_attn.q_proj", "attention.attention.query"},
                                              {"self_attn.k_proj", "attention.attention.key"},
                                              {"self_attn.v_proj", "attention.attention.value"},
                                              {"self_attn.out_proj", "attention.output.dense"},
                                              {"layer_norm1", "layernorm_before"},
                                              {"layer_norm2", "layernorm_after"},
                                              {"mlp.fc1", "intermediate.dense"},
                                              {"mlp.fc2", "output.dense"}}};
constexpr std::array<Pair, 8> kVit5InBlock = {{{"self_attn.q_proj", "attention.q_proj"},
                                               {"self_attn.k_proj", "attention.k_proj"},
                                               {"self_attn.v_proj", "attention.v_proj"},
                                               {"self_attn.out_proj", "attention.o_proj"},
                                               {"layer_norm1", "layernorm_before"},
                                               {"layer_norm2", "layernorm_after"},
                                               {"mlp.fc1", "mlp.fc1"},
                                               {"mlp.fc2", "mlp.fc2"}}};
constexpr std::array<Pair, 1> kVitOutside = {{{"head", "classifier"}}};

constexpr std::array<Pair, 5> kDinov2Around = {
    {{"vision_model.embeddings.class_embedding", "embeddings.cls_token"},
     {"vision_model.embeddings.register_tokens", "embeddings.register_tokens"},
     {"vision_model.embeddings.patch_embedding", "embeddings.patch_embeddings.projection"},
     {"vision_model.embeddings.position_embedding.weight", "embeddings.position_embeddings"},
     {"vision_model.post_layernorm", "layernorm"}}};
constexpr std::array<Pair, 10> kDinov2InBlock = {{{"self_attn.q_proj", "attention.attention.query"},
                                                  {"self_attn.k_proj", "attention.attention.key"},
                                                  {"self_attn.v_proj", "attention.attention.value"},
                                                  {"self_attn.out_proj", "attention.output.dense"},
                                                  {"layer_norm1", "norm1"},
                                                  {"layer_norm2", "norm2"},
                                                  {"layer_scale1", "layer_scale1"},
                                                  {"layer_scale2", "layer_scale2"},
                                                  {"mlp.fc1", "mlp.fc1"},
                                                  {"mlp.fc2", "mlp.fc2"}}};
constexpr std::array<Pair, 10> kDinov25InBlock = {{{"self_attn.q_proj", "attention.q_proj"},
                                                   {"self_attn.k_proj", "attention.k_proj"},
                                                   {"self_attn.v_proj", "attention.v_proj"},
                                                   {"self_attn.out_proj", "attention.o_proj"},
                                                   {"layer_norm1", "norm1"},
                                                   {"layer_norm2", "norm2"},
                                                   {"layer_scale1", "layer_scale1"},
                                                   {"layer_scale2", "layer_scale2"},
                                                   {"mlp.fc1", "mlp.fc1"},
                                                   {"mlp.fc2", "mlp.fc2"}}};

constexpr std::array<Pair, 6> kTimmAround = {
    {{"vision_model.embeddings.class_embedding", "cls_token"},
     {"vision_model.embeddings.register_tokens", "reg_token"},
     {"vision_model.embeddings.patch_embedding", "patch_embed.proj"},
     {"vision_model.embeddings.position_embedding.weight", "pos_embed"},
     {"vision_model.pre_layrnorm", "norm_pre"},
     {"vision_model.post_layernorm", "norm"}}};
constexpr std::array<Pair, 8> kTimmInBlock = {{{"self_attn.qkv", "attn.qkv"},
                                               {"self_attn.out_proj", "attn.proj"},
                                               {"layer_norm1", "norm1"},
                                               {"layer_norm2", "norm2"},
                                               {"layer_scale1.lambda1", "ls1.gamma"},
                                               {"layer_scale2.lambda1", "ls2.gamma"},
                                               {"mlp.fc1", "mlp.fc1"},
                                               {"mlp.fc2", "mlp.fc2"}}};
constexpr std::array<Pair, 1> kTimmOutside = {{{"head", "head"}}};
constexpr std::array<Pair, 1> kTimmClipOutside = {{{"visual_projection", "head"}}};

constexpr std::array<Pair, 6> kOpenClipAround = {
    {{"vision_model.embeddings.class_embedding", "class_embedding"},
     {"vision_model.embeddings.patch_embedding", "conv1"},
     {"vision_model.embeddings.position_embedding.weight", "positional_embedding"},
     {"vision_model.pre_layrnorm", "ln_pre"},
     {"vision_model.post_layernorm", "ln_post"},
     {"visual_projection.weight", "proj"}}};
constexpr std::array<Pair, 7> kOpenClipInBlock = {{{"self_attn.qkv.weight", "attn.in_proj_weight"},
                                                   {"self_attn.qkv.bias", "attn.in_proj_bias"},
                                                   {"self_attn.out_proj", "attn.out_proj"},
                                                   {"layer_norm1", "ln_1"},
                                                   {"layer_norm2", "ln_2"},
                                                   {"mlp.fc1", "mlp.c_fc"},
                                                   {"mlp.fc2", "mlp.c_proj"}}};
constexpr std::array<Pair, 5> kOpenClipOutside = {
    {{"text_projection.weight", "text_projection"},
     {"logit_scale", "logit_scale"},
     {"text_model.embeddings.token_embedding", "token_embedding"},
     {"text_model.embeddings.position_embedding.weight", "positional_embedding"},
     {"text_model.final_layer_norm", "ln_final"}}};

Names names(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kClip:
      return {"vision_model.", "encoder.layers.", kClipAround,
              kClipInBlock,    kClipOutside,      kTextBlocks};
    case WeightLayout::kClipInner:
      return {"", "encoder.layers.", kClipAround, kClipInBlock, kClipOutside};
    case WeightLayout::kVit:
      return {"vit.", "encoder.layer.", kVitAround, kVitInBlock, kVitOutside};
    case WeightLayout::kVitInner:
      return {"", "encoder.layer.", kVitAround, kVitInBlock, {}};
    case WeightLayout::kVit5:
      return {"vit.", "layers.", kVitAround, kVit5InBlock, kVitOutside};
    case WeightLayout::kVit5Inner:
      return {"", "layers.", kVitAround, kVit5InBlock, {}};
    case WeightLayout::kDinov2:
      return {"", "encoder.layer.", kDinov2Around, kDinov2InBlock, {}};
    case WeightLayout::kDinov25:
      return {"", "encoder.layer.", kDinov2Around, kDinov25InBlock, {}};
    case WeightLayout::kTimm:
      return {"", "blocks.", kTimmAround, kTimmInBlock, kTimmOutside};
    case WeightLayout::kTimmClip:
      return {"", "blocks.", kTimmAround, kTimmInBlock, kTimmClipOutside};
    case WeightLayout::kOpenClip:
      return {"visual.",        "transformer.resblocks.", kOpenClipAround,
              kOpenClipInBlock, kOpenClipOutside,         "transformer.resblocks."};
  }
  assert(false);
  return {};
}

bool is_parameter(std::string_view name) {
  return name.ends_with("weight") || name.ends_with("bias");
}

/// Returns `name` with its leading `from` replaced by `to`; nullopt if `from` does not match whole
/// parts of the name.
std::optional<std::string> replaced(std::string_view name, std::string_view from,
                                    std::string_view to, bool is_whole) {
  if (!name.starts_with(from)) return std::nullopt;
  const std::string_view rest = name.substr(from.size());
  if (!rest.empty() && (is_whole || rest.front() != '.')) return std::nullopt;
  return std::string(to) + std::string(rest);
}

enum class Way { kToTheirs, kToOurs };

std::optional<std::string> translated(std::span<const Pair> pairs, std::string_view name, Way way) {
  for (const auto& [ours, theirs] : pairs) {
    const bool is_whole = is_parameter(ours);
    auto found = way == Way::kToTheirs ? replaced(name, ours, theirs, is_whole)
                                       : replaced(name, theirs, ours, is_whole);
    if (found) return found;
  }
  return std::nullopt;
}

/// Splits "12.rest" into the number and the rest; both are empty if it does not have this form.
std::pair<std::string_view, std::string_view> numbered(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
  if (end == 0 || end == text.size() || text[end] != '.') return {};
  return {text.substr(0, end), text.substr(end + 1)};
}

std::optional<std::string> with_prefix(std::string_view prefix, std::optional<std::string> name) {
  if (name) name->insert(0, prefix);
  return name;
}

std::optional<std::string> in_block(const Names& table, std::string_view before,
                                    std::string_view text, Way way) {
  const auto [number, rest] = numbered(text);
  if (number.empty()) return std::nullopt;
  return with_prefix(std::string(before) + std::string(number) + ".",
                     translated(table.in_block, rest, way));
}

}  // namespace

std::string_view name(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kClip:
    case WeightLayout::kClipInner:
      return "transformers' CLIP";
    case WeightLayout::kVit:
    case WeightLayout::kVitInner:
    case WeightLayout::kVit5:
    case WeightLayout::kVit5Inner:
      return "transformers' ViT";
    case WeightLayout::kDinov2:
    case WeightLayout::kDinov25:
      return "transformers' DINOv2";
    case WeightLayout::kTimm:
      return "timm's ViT";
    case WeightLayout::kTimmClip:
      return "timm's CLIP";
    case WeightLayout::kOpenClip:
      return "OpenAI's CLIP";
  }
  assert(false);
  return "";
}

std::optional<std::string> library_name(WeightLayout layout, std::string_view ours) {
  const Names table = names(layout);
  if (ours.starts_with(kBlocks)) {
    return with_prefix(table.prefix,
                       in_block(table, table.blocks, ours.substr(kBlocks.size()), Way::kToTheirs));
  }
  if (ours.starts_with(kTextBlocks)) {
    if (table.text_blocks.empty()) return std::nullopt;
    return in_block(table, table.text_blocks, ours.substr(kTextBlocks.size()), Way::kToTheirs);
  }
  if (auto found = translated(table.outside, ours, Way::kToTheirs)) return found;
  return with_prefix(table.prefix, translated(table.around, ours, Way::kToTheirs));
}

std::optional<std::string> our_name(WeightLayout layout, std::string_view theirs) {
  const Names table = names(layout);
  if (auto found = translated(table.outside, theirs, Way::kToOurs)) return found;
  if (!table.text_blocks.empty() && theirs.starts_with(table.text_blocks))
    return in_block(table, kTextBlocks, theirs.substr(table.text_blocks.size()), Way::kToOurs);
  if (!theirs.starts_with(table.prefix)) return std::nullopt;
  const std::string_view rest = theirs.substr(table.prefix.size());
  if (rest.starts_with(table.blocks))
    return in_block(table, kBlocks, rest.substr(table.blocks.size()), Way::kToOurs);
  return translated(table.around, rest, Way::kToOurs);
}

bool is_fused(WeightLayout layout) {
  return layout == WeightLayout::kTimm || layout == WeightLayout::kTimmClip ||
         layout == WeightLayout::kOpenClip;
}

namespace {

constexpr std::array<std::pair<WeightLayout, WeightLayout>, 3> kRenamed = {
    {{WeightLayout::kVit, WeightLayout::kVit5},
     {WeightLayout::kVitInner, WeightLayout::kVit5Inner},
     {WeightLayout::kDinov2, WeightLayout::kDinov25}}};

}  // namespace

WeightLayout since_version_5(WeightLayout layout) {
  const auto* const found =
      std::ranges::find(kRenamed, layout, [](const auto& pair) { return pair.first; });
  return found == kRenamed.end() ? layout : found->second;
}

WeightLayout in_files(WeightLayout layout) {
  const auto* const found =
      std::ranges::find(kRenamed, layout, [](const auto& pair) { return pair.second; });
  return found == kRenamed.end() ? layout : found->first;
}

std::optional<WeightLayout> layout_of(const NamedTensors& saved) {
  // Checks the patches' weight and, if two layouts share it, a tensor that only one of them has.
  const auto has = [&](const char* name) { return saved.contains(name); };
  if (has("visual.conv1.weight")) return WeightLayout::kOpenClip;
  if (has("vision_model.embeddings.patch_embedding.weight")) return WeightLayout::kClip;
  if (has("embeddings.patch_embedding.weight")) return WeightLayout::kClipInner;
  if (has("patch_embed.proj.weight"))
    return has("norm_pre.weight") ? WeightLayout::kTimmClip : WeightLayout::kTimm;
  if (has("vit.embeddings.patch_embeddings.projection.weight")) {
    return has("vit.layers.0.attention.q_proj.weight") ? WeightLayout::kVit5 : WeightLayout::kVit;
  }
  if (has("encoder.layer.0.layer_scale1.lambda1")) {
    return has("encoder.layer.0.attention.q_proj.weight") ? WeightLayout::kDinov25
                                                          : WeightLayout::kDinov2;
  }
  if (has("embeddings.patch_embeddings.projection.weight")) {
    return has("layers.0.attention.q_proj.weight") ? WeightLayout::kVit5Inner
                                                   : WeightLayout::kVitInner;
  }
  return std::nullopt;
}

std::string unwrapped_name(std::string_view name, std::string_view wrapper) {
  while (!wrapper.empty()) {
    const std::string_view first = wrapper.substr(0, wrapper.find('.') + 1);
    wrapper.remove_prefix(first.size());
    if (name.starts_with(first)) name.remove_prefix(first.size());
  }
  return std::string(name);
}

NamedTensors unwrapped(const NamedTensors& saved, std::string_view wrapper) {
  std::vector<NamedTensors::Item> items;
  for (const auto& [name, tensor] : saved)
    items.emplace_back(unwrapped_name(name, wrapper), tensor);
  std::ranges::sort(items, {}, &NamedTensors::Item::first);
  const auto are_called_alike = [](const auto& a, const auto& b) { return a.first == b.first; };
  items.erase(std::unique(items.begin(), items.end(), are_called_alike), items.end());
  return NamedTensors(std::move(items));
}

std::optional<std::string> wrapper_of(const NamedTensors& saved) {
  if (layout_of(saved)) return "";
  // Every layout has a weight for the patches. The part before it may belong to a layout's own
  // names, so the shortest prefix is used.
  constexpr std::array<std::string_view, 4> kPatches = {
      "visual.conv1.weight", "embeddings.patch_embedding.weight", "patch_embed.proj.weight",
      "embeddings.patch_embeddings.projection.weight"};
  std::vector<std::string> wrappers;
  for (const auto& [name, tensor] : saved) {
    for (const std::string_view patches : kPatches) {
      if (!name.ends_with(patches)) continue;
      const std::string before = name.substr(0, name.size() - patches.size());
      if (!before.empty() && !before.ends_with('.')) continue;
      // Removes leading parts, one after another, until the names match a layout.
      for (std::size_t end = 0; end < before.size();) {
        end = before.find('.', end) + 1;
        const std::string wrapper = before.substr(0, end);
        if (!layout_of(unwrapped(saved, wrapper))) continue;
        wrappers.push_back(wrapper);
        break;
      }
    }
  }
  if (wrappers.empty()) return std::nullopt;
  if (std::ranges::adjacent_find(wrappers, std::ranges::not_equal_to()) != wrappers.end()) {
    throw runner::StageError(
        runner::ErrorCode::kOptionConflict,
        "the weights contain several models, under " + runner::listed(wrappers, 8, "'"))
        .with_help("choose one: weights_entry=" + wrappers[0].substr(0, wrappers[0].size() - 1));
  }
  return wrappers[0];
}

runner::PretrainedConfig sizes_of_weights(const NamedTensors& named) {
  runner::PretrainedConfig sizes;
  const NamedTensors saved = unwrapped(named, wrapper_of(named).value_or(""));
  const auto layout = layout_of(saved);
  if (!layout) return sizes;
  /// Returns the size of our weight `ours` along `dimension`; negative dimensions count from the
  /// last.
  const auto size = [&](const std::string& ours,
                        std::int64_t dimension) -> std::optional<std::int64_t> {
    const auto theirs = library_name(*layout, ours);
    if (!theirs || !saved.contains(*theirs)) return std::nullopt;
    const at::Tensor& tensor = saved.at(*theirs);
    const bool has_it = dimension < 0 ? tensor.dim() >= -dimension : tensor.dim() > dimension;
    return has_it ? std::optional(tensor.size(dimension)) : std::nullopt;
  };
  sizes.hidden_size = size("vision_model.embeddings.patch_embedding.weight", 0);
  sizes.patch_size = size("vision_model.embeddings.patch_embedding.weight", -1);
  const std::string blocks = "vision_model.encoder.layers.";
  sizes.register_tokens = size("vision_model.embeddings.register_tokens", -2);
  sizes.intermediate_size = size(blocks + "0.mlp.fc1.weight", 0);
  std::int64_t layers = 0;
  while (size(blocks + std::to_string(layers) + ".layer_norm1.weight", 0)) ++layers;
  if (layers > 0) sizes.num_hidden_layers = layers;
  // OpenAI stores the projection transposed: x @ projection.
  sizes.projection_dim =
      size("visual_projection.weight", *layout == WeightLayout::kOpenClip ? -1 : 0);
  return sizes;
}

}  // namespace stages
