#include "runner/parent/compile/settle_weights.h"

#include <stdexcept>
#include <utility>

#include "runner/parent/config/yaml_reader.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/weights/hugging_face_cache.h"
#include "runner/shared/weights/pretrained_config.h"
#include "runner/shared/weights/weights_file.h"

namespace runner {
namespace {

constexpr std::int64_t kUsualImageSize = 224;

/// What a config says of one option.
struct FromConfig {
  std::string option;
  Value value;
};

std::vector<FromConfig> all_said(const PretrainedConfig& config) {
  std::vector<FromConfig> result;
  const auto add = [&](const char* option, const auto& value) {
    if (value) result.push_back({option, Value{*value, {}}});
  };
  add("hidden_size", config.hidden_size);
  add("intermediate_size", config.intermediate_size);
  add("num_hidden_layers", config.num_hidden_layers);
  add("num_attention_heads", config.num_attention_heads);
  add("patch_size", config.patch_size);
  add("projection_dim", config.projection_dim);
  add("hidden_act", config.hidden_act);
  add("layer_norm_eps", config.layer_norm_eps);
  return result;
}

/// Where in a config the option stands; the whole config where its value follows from something else there.
Location place_in(const Value& config, std::string_view option) {
  for (const char* section : {"vision_config", "model_args", ""}) {
    const Value* in = *section ? config.find(section) : &config;
    const Value* found = in ? in->find(option) : nullptr;
    if (found) return found->where;
  }
  return config.where;
}

/// Brings one mapping and the config beside its weights together.
class Settling {
 public:
  Settling(Value& mapping, const std::string& weights, const std::string& pointer, Sources& sources,
           const std::filesystem::path& folder)
      : mapping_(mapping), weights_(weights), pointer_(pointer), sources_(sources), folder_(folder) {}

  /// What the config says of the images that the weights were trained on.
  const std::optional<Value>& image_size() const { return image_size_; }

  Diagnostics run() {
    const Value* reference = mapping_.find(weights_);
    if (!reference || !reference->text()) return {};
    reference_ = *reference->text();
    try {
      const bool is_path = !is_hub_reference(reference_);
      const auto beside = config_beside(find_weights(is_path ? (folder_ / reference_).string() : reference_));
      if (beside) settle(*beside);
    } catch (const StageError& error) {
      // What is not there yet may be fetched: the stage says so when it is made.
      if (error.code != ErrorCode::kMissingWeights) fail(weights_, error.code, error.what(), error.help);
    } catch (const std::invalid_argument& error) {
      fail(weights_, ErrorCode::kOptionConflict,
           "the config.json beside '" + reference_ + "' describes an unsupported model: " + error.what(),
           "give weights of a CLIP or ViT");
    }
    return std::move(errors_);
  }

 private:
  void settle(const ConfigBeside& beside) {
    const PretrainedConfig config = pretrained_config(beside.json);
    const Value* kind = mapping_.find("kind");
    if (config.kind && kind && kind->text() && *kind->text() != *config.kind) {
      return fail("kind", ErrorCode::kOptionConflict,
                  "kind is " + *kind->text() + ", but the weights '" + reference_ + "' are those of a " + *config.kind,
                  "write 'kind: " + *config.kind + "', or give other weights");
    }
    const SourceText& source = sources_.add(beside.file.string(), beside.text);
    const auto read = read_yaml(source);  // JSON is YAML, but for some escapes
    if (config.image_size)
      image_size_ = Value{*config.image_size, read ? place_in(*read, "image_size") : Location{&source, 1, 1}};
    for (FromConfig& said : all_said(config)) {
      said.value.where = read ? place_in(*read, said.option) : Location{&source, 1, 1};
      if (Value* written = mapping_.find(said.option)) settle(*written, said);
    }
  }

  void settle(Value& written, const FromConfig& said) {
    if (written.is_default || (written.text() && *written.text() == "auto")) {
      written = said.value;
    } else if (!same_data(written, said.value) && !is_without_effect(written, said.option)) {
      fail(said.option, ErrorCode::kOptionConflict,
           said.option + " is " + describe(written) + ", but " + describe(said.value) +
               " in the config.json beside the weights '" + reference_ + "'",
           "leave it out: it is then taken from the weights");
      errors_.back().notes.push_back({said.value.where, "the weights' config"});
    }
  }

  /// Only projected features pass the projection, which the weights may lack.
  bool is_without_effect(const Value& written, std::string_view option) const {
    const Value* features = mapping_.find("features");
    const bool is_pooled = features && features->text() && *features->text() == "pooled";
    return option == "projection_dim" && (written.is_null() || is_pooled);
  }

  void fail(const std::string& option, ErrorCode code, std::string message, std::string help) {
    const std::string pointer = pointer_to(pointer_, option);
    const Value* value = mapping_.find(option);
    errors_.push_back({code, value ? value->where : mapping_.where, pointer, std::move(message), std::move(help)});
  }

  Value& mapping_;
  const std::string& weights_;
  const std::string& pointer_;
  Sources& sources_;
  const std::filesystem::path& folder_;
  std::string reference_;
  std::optional<Value> image_size_;
  Diagnostics errors_;
};

/// Puts what all of `said` say in place of auto.
void settle_image_sizes(Value& recipe, const std::vector<Value>& said, Diagnostics& errors) {
  for (Entry& stage : *recipe.map()) {
    const Value* const kind = stage.value.map() ? stage.value.find("kind") : nullptr;
    if (!kind || !kind->text() || !kind->text()->starts_with("data.")) continue;
    Value* const size = stage.value.find("image_size");
    if (!size || !(size->is_default || (size->text() && *size->text() == "auto"))) continue;
    const auto other = std::ranges::find_if(said, [&](const Value& one) { return !same_data(one, said.front()); });
    if (other == said.end()) {
      if (said.empty()) size->data = kUsualImageSize;
      else *size = said.front();
      continue;
    }
    errors.push_back({ErrorCode::kOptionConflict, size->where, "/" + stage.key + "/image_size",
                      "image_size is auto, and the networks' weights are for images of " + describe(said.front()) +
                          " and of " + describe(*other) + " pixels",
                      "write the size that all of them are to see"});
    errors.back().notes = {{said.front().where, "one of them"}, {other->where, "another"}};
  }
}

}  // namespace

Diagnostics settle_by_weights(Value& recipe, const SchemaSet& schemas, Sources& sources,
                              const std::filesystem::path& folder) {
  Diagnostics errors;
  std::vector<Value> image_sizes;
  schemas.visit_configured(recipe, [&](Value& mapping, const std::string& weights, const std::string& pointer) {
    Settling settling(mapping, weights, pointer, sources, folder);
    for (Diagnostic& error : settling.run()) errors.push_back(std::move(error));
    const Value* const written = mapping.find("image_size");
    if (written && std::holds_alternative<std::int64_t>(written->data)) image_sizes.push_back(*written);
    else if (settling.image_size()) image_sizes.push_back(*settling.image_size());
  });
  settle_image_sizes(recipe, image_sizes, errors);
  sort_by_place(errors, sources);
  return errors;
}

}  // namespace runner
