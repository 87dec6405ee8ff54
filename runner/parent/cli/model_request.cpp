#include "runner/parent/cli/model_request.h"

#include <array>
#include <filesystem>
#include <stdexcept>

#include "runner/parent/cli/launched.h"
#include "runner/parent/cli/prepare.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/weights/pretrained_config.h"
#include "runner/shared/weights/weights_file.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kModelNode = "model";

Diagnostic unusable_model(const std::string& reference, ErrorCode code, const std::string& why,
                          std::string help) {
  return {code, {}, "", "'" + reference + "' cannot be used as a model: " + why, std::move(help)};
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// Returns the options of model.clip for the model `reference` with the weights in `weights`.
Result<Json> folder_options(const std::string& reference, const fs::path& weights) {
  const fs::path folder = weights.parent_path();
  const auto missing = [&](const std::string& file, const std::string& what) {
    const std::string help = is_hub_reference(reference)
                                 ? "fetch it with the weights: retort data fetch " + reference
                                 : "add it: transformers saves it with a CLIP model";
    return unusable_model(reference, ErrorCode::kMissingWeights, "it has no " + file + ", " + what,
                          help);
  };
  const auto config = config_next_to(weights);
  if (!config || config->file.filename() != "config.json")
    return missing("config.json", "which contains the model dimensions");
  Json options;
  try {
    options = clip_options(config->json);
  } catch (const std::invalid_argument& error) {
    return unusable_model(
        reference, ErrorCode::kOptionConflict, std::string("in its config.json, ") + error.what(),
        "give a CLIP model with both towers, such as hf:openai/clip-vit-base-patch32");
  }
  constexpr std::array kMerges = {"merges.txt", "bpe_simple_vocab_16e6.txt.gz"};
  if (!is_file(folder / kMerges[0]) && !is_file(folder / kMerges[1]))
    return missing("merges.txt", "which is needed to tokenize text");
  if (!is_file(folder / "preprocessor_config.json"))
    return missing("preprocessor_config.json", "which describes how images are preprocessed");
  if (is_file(folder / "vocab.json"))
    options["tokenizer"]["vocabulary"] = (folder / "vocab.json").string();
  return options;
}

}  // namespace

Result<WeightsRequest> model_request(std::string_view name, const std::string& reference,
                                     const std::vector<std::string>& overrides, Sources& sources) {
  for (const std::string& word : overrides) {
    if (is_of_machine(word)) continue;
    return Diagnostic{
        ErrorCode::kUsage,
        {},
        "",
        "'" + word + "' has no effect on " + (name == "embed" ? "embeddings" : "a prediction"),
        "the only possible overrides here are device=… and threads=…, and there is no file with "
        "this name"};
  }
  const bool is_path = !is_hub_reference(reference);
  const std::string weights =
      is_path ? fs::absolute(reference).lexically_normal().string() : reference;
  Json recipe = {{"schema", 1}, {"name", "model"}};
  try {
    auto options = folder_options(reference, find_weights(weights));
    if (!options) return options.errors();
    recipe[kModelNode] = {{"kind", "model.clip"}, {"weights", weights}};
    recipe[kModelNode].update(*options);
  } catch (const StageError& error) {
    return Diagnostic{error.code, {}, "", error.what(), error.help};
  }
  const auto prepared = prepare_text(recipe.dump(), overrides, shipped_schemas(), sources);
  if (!prepared) return prepared.errors();
  if (auto errors = refused_ranks(name, /*before=*/Value(), prepared->recipe.resolved);
      !errors.empty())
    return errors;
  return WeightsRequest{{{"protocol", kProtocolVersion},
                         {"request", name},
                         {"graph", to_json(prepared->graph)},
                         {"node", kModelNode},
                         {"model", weights}},
                        prepared->recipe.resolved,
                        prepared->graph,
                        std::nullopt};
}

}  // namespace runner
