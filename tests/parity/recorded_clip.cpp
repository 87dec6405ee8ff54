#include "tests/parity/recorded_clip.h"

using namespace stages;

namespace {

/// The shape of a model with this config, for images of `image_size` pixels.
ClipOptions shape_of(const nlohmann::json& config, std::int64_t image_size) {
  const auto block_of = [](const nlohmann::json& tower) {
    return BlockOptions{.hidden_size = tower.at("hidden_size"),
                        .intermediate_size = tower.at("intermediate_size"),
                        .num_attention_heads = tower.at("num_attention_heads"),
                        .hidden_act = activation_named(tower.at("hidden_act").get<std::string>()),
                        .layer_norm_eps = tower.at("layer_norm_eps")};
  };
  const nlohmann::json &images = config.at("vision_config"), &texts = config.at("text_config");
  constexpr std::int64_t kOfOldConfigs = 2;  // old configs use 2 to mean the highest ID
  ClipOptions options;
  options.image.block = block_of(images);
  options.image.num_hidden_layers = images.at("num_hidden_layers");
  options.image.patch_size = images.at("patch_size");
  options.image.image_size = image_size;
  options.text.block = block_of(texts);
  options.text.num_hidden_layers = texts.at("num_hidden_layers");
  options.text.vocab_size = texts.at("vocab_size");
  options.text.context_length = texts.at("max_position_embeddings");
  options.text.end_id = texts.at("eos_token_id");
  options.text.end_token =
      options.text.end_id == kOfOldConfigs ? EndToken::kHighestId : EndToken::kFirstEnd;
  options.projection_dim = config.at("projection_dim");
  return options;
}

}  // namespace

RecordedClip::RecordedClip(const RecordedCase& recorded, const std::filesystem::path& weights,
                           at::ScalarType type) {
  const RecordedTensors inputs = safetensors_fixture(recorded.path / "inputs.safetensors");
  pixels = inputs.at("pixel_values").to(type);
  ids = inputs.at("input_ids");
  network = std::make_shared<ClipNetwork>(
      shape_of(json_file(recorded.path / "config.json"), pixels.size(2)));
  network->to(type);
  for (const auto& [name, tensor] : safetensors_fixture(weights)) saved.set(name, tensor);
  report = load_pretrained(*network, saved, PositionResize::kBicubic);
  EXPECT_TRUE(report.fits()) << report.misfits();
}
