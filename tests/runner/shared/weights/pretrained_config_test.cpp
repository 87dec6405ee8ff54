#include "runner/shared/weights/pretrained_config.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using nlohmann::json;

PretrainedConfig read(const char* text) { return pretrained_config(json::parse(text)); }

std::string refusal_of(const char* text) {
  try {
    read(text);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(PretrainedConfig, FullClipHasItsTowerInASection) {
  const auto config =
      read(R"({"model_type": "clip", "projection_dim": 512, "vision_config": {"hidden_size": 1024,
    "hidden_act": "gelu", "layer_norm_eps": 1e-6, "patch_size": 14, "projection_dim": 768}})");
  EXPECT_EQ(config.kind, "clip_vision");
  EXPECT_EQ(config.hidden_size, 1024);
  EXPECT_EQ(config.patch_size, 14);
  EXPECT_EQ(config.hidden_act, "gelu");
  EXPECT_EQ(config.layer_norm_eps, 1e-6);
  EXPECT_EQ(config.projection_dim, 512);
  EXPECT_EQ(config.num_hidden_layers, std::nullopt);
}

TEST(PretrainedConfig, MissingKeysGetTheLibrarysDefaults) {
  EXPECT_EQ(read(R"({"model_type": "clip_vision_model"})").hidden_act, "quick_gelu");
  EXPECT_EQ(read(R"({"model_type": "clip_vision_model"})").layer_norm_eps, 1e-5);
  EXPECT_EQ(read(R"({"model_type": "vit"})").hidden_act, "gelu");
  EXPECT_EQ(read(R"({"model_type": "vit"})").layer_norm_eps, 1e-12);
}

TEST(PretrainedConfig, TimmModelNamesDetermineTheShape) {
  const auto vit = read(R"({"architecture": "vit_base_patch16_224.augreg2_in21k_ft_in1k"})");
  EXPECT_EQ(vit.kind, "vit");
  EXPECT_EQ(vit.hidden_size, 768);
  EXPECT_EQ(vit.intermediate_size, 3072);
  EXPECT_EQ(vit.image_size, 224);
  EXPECT_EQ(vit.hidden_act, "gelu");
  EXPECT_EQ(vit.layer_norm_eps, 1e-6);
  const auto clip =
      read(R"({"architecture": "vit_large_patch14_clip_quickgelu_336", "num_classes": 768})");
  EXPECT_EQ(clip.kind, "clip_vision");
  EXPECT_EQ(clip.num_hidden_layers, 24);
  EXPECT_EQ(clip.hidden_act, "quick_gelu");
  EXPECT_EQ(clip.layer_norm_eps, 1e-5);
  EXPECT_EQ(clip.projection_dim, 768);
  EXPECT_EQ(read(R"({"architecture": "vit_base_patch32_clip_224"})").hidden_act, "gelu");
  EXPECT_EQ(read(R"({"architecture": "vit_tiny_patch16_224", "model_args": {"embed_dim": 96}})")
                .hidden_size,
            96);
}

TEST(PretrainedConfig, Dinov2HasAnMlpRatioAndRegisterTokens) {
  const auto plain = read(R"({"model_type": "dinov2", "hidden_size": 384, "mlp_ratio": 3,
    "num_attention_heads": 6, "image_size": 518})");
  EXPECT_EQ(plain.kind, "dinov2");
  EXPECT_EQ(plain.intermediate_size, 1152);
  EXPECT_EQ(plain.patch_size, 14);
  EXPECT_EQ(plain.image_size, 518);
  EXPECT_EQ(plain.register_tokens, 0);
  EXPECT_EQ(plain.hidden_act, "gelu");
  EXPECT_EQ(plain.layer_norm_eps, 1e-6);
  const auto registers = read(R"({"model_type": "dinov2_with_registers", "patch_size": 14})");
  EXPECT_EQ(registers.kind, "dinov2");
  EXPECT_EQ(registers.intermediate_size, 3072);
  EXPECT_EQ(registers.register_tokens, 4);
  EXPECT_EQ(
      read(R"({"model_type": "dinov2_with_registers", "num_register_tokens": 2})").register_tokens,
      2);
  EXPECT_EQ(refusal_of(R"({"model_type": "dinov2", "use_swiglu_ffn": true})"),
            "its MLP is gated ('use_swiglu_ffn')");
}

TEST(PretrainedConfig, TimmDinov2DefaultsTo518Pixels) {
  const auto plain = read(R"({"architecture": "vit_small_patch14_dinov2.lvd142m"})");
  EXPECT_EQ(plain.kind, "dinov2");
  EXPECT_EQ(plain.hidden_size, 384);
  EXPECT_EQ(plain.num_attention_heads, 6);
  EXPECT_EQ(plain.patch_size, 14);
  EXPECT_EQ(plain.image_size, 518);
  EXPECT_EQ(plain.register_tokens, 0);
  const auto registers =
      read(R"({"architecture": "vit_base_patch14_reg4_dinov2", "model_args": {"img_size": 224}})");
  EXPECT_EQ(registers.register_tokens, 4);
  EXPECT_EQ(registers.image_size, 224);
  EXPECT_EQ(read(R"({"architecture": "vit_base_patch16_224"})").register_tokens, std::nullopt);
}

TEST(PretrainedConfig, OpenClipUsesGeluUnlessConfiguredDifferently) {
  EXPECT_EQ(read(R"({"model_cfg": {"embed_dim": 512, "vision_cfg": {"layers": 12, "width": 768}}})")
                .hidden_act,
            "gelu");
  const auto quick =
      read(R"({"model_cfg": {"quick_gelu": true, "vision_cfg": {"layers": 24, "width": 1024}}})");
  EXPECT_EQ(quick.hidden_act, "quick_gelu");
  EXPECT_EQ(quick.num_attention_heads, 16);
}

TEST(PretrainedConfig, UnsupportedModelsAreRejected) {
  EXPECT_EQ(refusal_of(R"({"model_type": "vit", "hidden_act": "relu"})"),
            "its 'hidden_act' is 'relu', but only gelu and quick_gelu are supported");
  EXPECT_EQ(refusal_of(R"({"model_type": "vit", "hidden_size": -3})"),
            "its 'hidden_size' is -3, not a positive number");
  EXPECT_EQ(refusal_of(R"({"model_type": "vit", "qkv_bias": false})"),
            "its attention has no bias ('qkv_bias')");
  EXPECT_EQ(refusal_of(R"({"architecture": "resnet50"})"),
            "its 'architecture' is 'resnet50', but the only supported timm models are "
            "vit_{tiny,small,base,large}_patch…");
}

TEST(PretrainedConfig, UnsupportedFamiliesAreIgnored) {
  EXPECT_EQ(read(R"({"model_type": "bert", "hidden_size": 768})").hidden_size, std::nullopt);
  EXPECT_EQ(read("[1]").hidden_size, std::nullopt);
}

}  // namespace
}  // namespace runner
