#include "runner/parent/compile/recipe.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/parent/compile/network_pixels.h"
#include "runner/parent/config/secret.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/schema/schema.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/weights/pretrained_config.h"
#include "runner/shared/weights/weights_file.h"

namespace runner {
namespace {

constexpr std::int64_t kUsualImageSize = 224;

/// The value of an option according to the config.json next to the weights.
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
  add("register_tokens", config.register_tokens);
  add("hidden_act", config.hidden_act);
  add("layer_norm_eps", config.layer_norm_eps);
  return result;
}

/// Returns the location of the option in a config, or of the whole config if the value is derived
/// from other keys.
Location place_in(const Value& config, std::string_view option) {
  for (const char* section : {"vision_config", "model_args", ""}) {
    const Value* in = *section ? config.find(section) : &config;
    const Value* found = in ? in->find(option) : nullptr;
    if (found) return found->where;
  }
  return config.where;
}

/// Reconciles one mapping with the config next to its weights.
class Settling {
 public:
  Settling(Value& mapping, const std::string& weights, const std::string& pointer, Sources& sources,
           const std::filesystem::path& folder)
      : mapping_(mapping),
        weights_(weights),
        pointer_(pointer),
        sources_(sources),
        folder_(folder) {}

  /// The size of the images on which the weights were trained, according to the config.
  const std::optional<Value>& image_size() const { return image_size_; }

  Diagnostics run() {
    const Value* reference = mapping_.find(weights_);
    if (!reference || !reference->text()) return {};
    reference_ = *reference->text();
    try {
      const std::string& place = *reference->reveal();
      const bool is_path = !is_hub_reference(place);
      const auto beside =
          config_next_to(find_weights(is_path ? (folder_ / place).string() : place));
      if (beside) fill_in(*beside);
    } catch (const StageError& error) {
      // Missing weights may be downloaded later; the stage reports them when it is created.
      if (error.code != ErrorCode::kMissingWeights)
        fail(weights_, error.code, error.what(), error.help);
    } catch (const std::invalid_argument& error) {
      fail(weights_, ErrorCode::kOptionConflict,
           "the config.json next to '" + reference_ +
               "' describes an unsupported model: " + error.what(),
           "give weights of a CLIP, ViT or DINOv2 model");
    }
    return std::move(errors_);
  }

 private:
  void fill_in(const ConfigBeside& beside) {
    const PretrainedConfig config = pretrained_config(beside.json);
    const Value* kind = mapping_.find("kind");
    if (config.kind && kind && kind->text() && *kind->text() != *config.kind) {
      return fail("kind", ErrorCode::kOptionConflict,
                  "kind is " + *kind->text() + ", but the weights '" + reference_ + "' are for " +
                      *config.kind,
                  "write 'kind: " + *config.kind + "', or use other weights");
    }
    const SourceText& source = sources_.add(beside.file.string(), beside.text);
    const auto read = read_yaml(source);  // JSON is YAML, except for some escapes
    if (config.image_size)
      image_size_ =
          Value{*config.image_size, read ? place_in(*read, "image_size") : Location{&source, 1, 1}};
    for (FromConfig& said : all_said(config)) {
      said.value.where = read ? place_in(*read, said.option) : Location{&source, 1, 1};
      if (Value* written = mapping_.find(said.option)) fill_in(*written, said);
    }
  }

  void fill_in(Value& written, const FromConfig& said) {
    if (written.is_default || written.says("auto")) {
      written = said.value;
    } else if (!same_data(written, said.value) && !is_without_effect(written, said.option)) {
      fail(said.option, ErrorCode::kOptionConflict,
           said.option + " is " + describe(written) + ", but " + describe(said.value) +
               " in the config.json next to the weights '" + reference_ + "'",
           "leave it out to take it from the weights");
      errors_.back().notes.push_back({said.value.where, "the weights' config"});
    }
  }

  /// True for projection_dim if the features are not projected, since the weights may then not have
  /// the projection.
  bool is_without_effect(const Value& written, std::string_view option) const {
    const Value* features = mapping_.find("features");
    const bool is_pooled = features && features->says("pooled");
    return option == "projection_dim" && (written.is_null() || is_pooled);
  }

  void fail(const std::string& option, ErrorCode code, std::string message, std::string help) {
    const std::string pointer = pointer_to(pointer_, option);
    const Value* value = mapping_.find(option);
    errors_.push_back({code, value ? value->where : mapping_.where, pointer, std::move(message),
                       std::move(help)});
  }

  Value& mapping_;
  const std::string& weights_;
  const std::string& pointer_;
  Sources& sources_;
  const std::filesystem::path& folder_;
  std::string reference_;  ///< the weights as shown in messages
  std::optional<Value> image_size_;
  Diagnostics errors_;
};

/// Fills in image_size in data stages that omit it or set it to auto. `said` contains the image
/// sizes from the configs of the networks' weights: if they differ, adds an error instead; if there
/// are none, uses the usual size, or leaves auto if a Python network determines the size.
void fill_in_image_sizes(Value& recipe, const std::vector<Value>& said, Diagnostics& errors) {
  const bool has_network = has_python_network(recipe);
  for (Entry& stage : *recipe.map()) {
    const Value* const kind = stage.value.map() ? stage.value.find("kind") : nullptr;
    if (!kind || !kind->text() || !kind->text()->starts_with("data.")) continue;
    Value* const size = stage.value.find("image_size");
    if (!size || !(size->is_default || size->says("auto"))) continue;
    if (said.empty() && has_network && !size->is_default) continue;
    const auto other =
        std::ranges::find_if(said, [&](const Value& one) { return !same_data(one, said.front()); });
    if (other == said.end()) {
      if (said.empty()) size->data = kUsualImageSize;
      else *size = said.front();
      continue;
    }
    errors.push_back(
        {ErrorCode::kOptionConflict, size->where, "/" + stage.key + "/image_size",
         "image_size is auto, but the networks' weights expect different image sizes: " +
             describe(said.front()) + " and " + describe(*other) + " pixels",
         "set image_size to the size that all networks should use"});
    errors.back().notes = {{said.front().where, "one size"}, {other->where, "another size"}};
  }
}

}  // namespace

Diagnostics fill_in_from_weights(Value& recipe, const SchemaSet& schemas, Sources& sources,
                                 const std::filesystem::path& folder) {
  Diagnostics errors;
  std::vector<Value> image_sizes;
  schemas.visit_configured(
      recipe, [&](Value& mapping, const std::string& weights, const std::string& pointer) {
        Settling settling(mapping, weights, pointer, sources, folder);
        for (Diagnostic& error : settling.run()) errors.push_back(std::move(error));
        const Value* const written = mapping.find("image_size");
        if (written && std::holds_alternative<std::int64_t>(written->data))
          image_sizes.push_back(*written);
        else if (settling.image_size()) image_sizes.push_back(*settling.image_size());
      });
  fill_in_image_sizes(recipe, image_sizes, errors);
  sort_by_place(errors, sources);
  return errors;
}

namespace {

constexpr std::array<std::string_view, 13> kReserved = {
    "schema", "name",  "notice", "seed",    "threads", "determinism", "device",
    "run",    "sweep", "vars",   "aliases", "python",  "hooks"};

/// YAML reads an unquoted `off` as false.
Determinism determinism_of(const Value& value) {
  return value.reveal() ? *determinism_named(*value.reveal()) : Determinism::kOff;
}

}  // namespace

std::string recipe_hash(const Value& resolved) { return sha256(sorted_json(resolved)); }

bool chooses_ranks(const Value& resolved) {
  const Value* const count = at_key(resolved, "device.count");
  return count && count->text() && *count->text() == "auto";
}

std::int64_t ranks_of(const Value& resolved) {
  const Value* const count = at_key(resolved, "device.count");
  const auto* const number = count ? std::get_if<std::int64_t>(&count->data) : nullptr;
  return number ? *number : 1;
}

std::string notice_of(const Value& resolved) {
  const Value* notice = resolved.find("notice");
  return notice && notice->text() ? *notice->text() : "";
}

namespace {

/// Returns an error for each stage that records gradient histograms for TensorBoard although
/// run.tensorboard is false.
Diagnostics unread_histograms(const Recipe& recipe) {
  Diagnostics errors;
  if (recipe.has_tensorboard) return errors;
  for (const StageSpec& stage : recipe.stages) {
    const Value* const every = stage.options.find("log_gradients_every");
    const auto* const steps = every ? std::get_if<std::int64_t>(&every->data) : nullptr;
    if (!steps || *steps == 0) continue;
    const std::string key = stage.name + ".log_gradients_every";
    errors.push_back({ErrorCode::kOptionConflict, every->where,
                      pointer_to(pointer_to("", stage.name), "log_gradients_every"),
                      key + " writes histograms for TensorBoard, but run.tensorboard is false",
                      "set run.tensorboard=true, or " + key + "=0"});
  }
  return errors;
}

}  // namespace

Result<Recipe> make_recipe(Value valid, const SchemaSet& schemas, Sources* sources,
                           const std::filesystem::path& folder) {
  if (auto errors = shown_secrets(valid, {"name", "notice", "run.dir", "seed", "threads"});
      !errors.empty())
    return errors;
  if (auto errors = expand_home(valid, schemas); !errors.empty()) return errors;
  if (auto errors = undetermined_pixels(valid); !errors.empty()) return errors;
  if (sources) {
    if (auto errors = fill_in_from_weights(valid, schemas, *sources, folder); !errors.empty())
      return errors;
  }
  Recipe recipe;
  recipe.name = std::get<std::string>(valid.find("name")->data);
  recipe.seed = static_cast<std::uint64_t>(std::get<std::int64_t>(valid.find("seed")->data));
  if (const auto* threads = std::get_if<std::int64_t>(&valid.find("threads")->data)) {
    recipe.threads = static_cast<int>(*threads);
  }
  recipe.determinism = determinism_of(*valid.find("determinism"));
  recipe.device = std::get<std::string>(valid.find("device")->find("select")->data);
  recipe.ranks = static_cast<int>(ranks_of(valid));
  recipe.collective_timeout =
      std::get<std::int64_t>(valid.find("device")->find("collective_timeout_seconds")->data);
  const Value& waits = *valid.find("device")->find("wait_for_gpu");
  if (recipe.ranks > 1 && recipe.device != "cpu" && std::get<bool>(waits.data)) {
    return Diagnostic{ErrorCode::kOptionConflict, waits.where, "/device/wait_for_gpu",
                      "device.wait_for_gpu waits for a single GPU, but device.count is " +
                          std::to_string(recipe.ranks),
                      "set device.wait_for_gpu: false, or device.count: 1"};
  }
  if (const auto* folder = valid.find("run")->find("dir")->text()) recipe.run_dir = *folder;
  if (const auto* node = valid.find("run")->find("only")->text()) recipe.only = *node;
  recipe.has_tensorboard = std::get<bool>(valid.find("run")->find("tensorboard")->data);
  recipe.has_mlflow = std::get<bool>(valid.find("run")->find("mlflow")->data);
  for (const Entry& entry : *valid.map()) {
    if (std::ranges::count(kReserved, entry.key)) continue;
    recipe.stages.push_back(
        {entry.key, entry.key_where, *entry.value.find("kind")->text(), entry.value});
  }
  if (auto errors = unread_histograms(recipe); !errors.empty()) return errors;
  if (recipe.stages.empty()) {
    return Diagnostic{
        ErrorCode::kMissingKey, valid.where, "", "the recipe has no stages",
        "write a mapping with a kind, such as data: {kind: data.image_folder, root: FOLDER}"};
  }
  recipe.resolved = std::move(valid);
  return recipe;
}

namespace {

bool begins_with_home(std::string_view path) { return path == "~" || path.starts_with("~/"); }

/// Returns the part of `path` that a shell would expand: "~anna", "$HOME"; empty if there is none.
std::string_view shell_word(std::string_view path) {
  const std::string_view first = path.substr(0, path.find('/'));
  if (first.size() < 2) return "";
  const auto is_name = [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
  };
  return first[0] == '~' || (first[0] == '$' && is_name(first[1])) ? first : "";
}

class HomePaths {
 public:
  HomePaths(const Value& recipe, const SchemaSet& schemas) : recipe_(recipe), schemas_(schemas) {}

  void expand(Value& value) {
    if (auto* map = value.map()) {
      for (Entry& entry : *map) expand_below(entry.key, entry.value);
    } else if (auto* list = value.list()) {
      for (std::size_t i = 0; i < list->size(); ++i) expand_below(std::to_string(i), (*list)[i]);
    } else if (std::string* const text = std::get_if<std::string>(&value.data)) {
      expand_text(*text, value);
    }
  }
  Diagnostics take_errors() { return std::move(errors_); }

 private:
  void expand_below(const std::string& key, Value& value) {
    path_.push_back(key);
    expand(value);
    path_.pop_back();
  }

  void expand_text(std::string& text, const Value& value) {
    if (is_made() && is_address(text)) {
      fail(value.where, "'" + without_url_secrets(*value.text()) + "' is a URL, not a folder",
           "use a folder on this machine, and copy it from there after the run");
      return;
    }
    const bool has_mark = text.find('~') != text.npos || text.starts_with('$');
    if (!has_mark || !schemas_.choices(recipe_, path_).is_path) return;
    const std::string shown = *value.text();
    const Location& where = value.where;
    if (begins_with_home(text)) {
      std::string whole = with_home(text);
      if (whole == text)
        fail(where, "'" + shown + "' refers to the home folder, but HOME is not set", "set HOME");
      text = std::move(whole);
    } else if (std::string word(shell_word(text)); !word.empty()) {
      if (shown != text) word.resize(1);
      fail(where, "'" + shown + "' begins with '" + word + "', which only a shell understands",
           word[0] == '$'
               ? "write ~/ for the home folder, or ${oc.env:" + word.substr(1) + "}"
               : "write the folder's full path, or ./" + shown + " for a folder with that name");
    } else if (is_made() && has_home_inside(text)) {
      fail(where, "'" + shown + "' would create a folder called '~'",
           "start it with ~/ for the home folder");
    }
  }

  bool is_made() const {
    return path_.size() == 2 && (path_[0] == "run" || path_[0] == "sweep") && path_[1] == "dir";
  }

  static bool has_home_inside(const std::string& text) {
    const std::filesystem::path path(text);
    return std::find(path.begin(), path.end(), "~") != path.end();
  }

  void fail(const Location& where, std::string message, std::string help) {
    errors_.push_back({ErrorCode::kOptionConflict, where, "/" + join(path_, "/"),
                       std::move(message), std::move(help)});
  }

  const Value& recipe_;
  const SchemaSet& schemas_;
  std::vector<std::string> path_;
  Diagnostics errors_;
};

}  // namespace

std::string with_home(const std::string& path) {
  const char* const home = std::getenv("HOME");
  if (!begins_with_home(path) || !home || !*home) return path;
  std::string_view folder = home;
  while (folder.size() > 1 && folder.ends_with('/')) folder.remove_suffix(1);
  return std::string(folder) + path.substr(1);
}

Diagnostics expand_home(Value& resolved, const SchemaSet& schemas) {
  const Value before = resolved;
  HomePaths paths(before, schemas);
  paths.expand(resolved);
  return paths.take_errors();
}

}  // namespace runner
