// End-to-end tests of invalid values for every string option of every schema: none causes an
// internal error, and each is reported with its location. Values are tried together in one recipe,
// with one stage each.

#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/label_table.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/target_table.h"

namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

/// A stage with an invalid option.
struct Wrong {
  std::string stage;  ///< its name in the recipe
  std::string text;   ///< the stage, as one line of YAML
};

/// Strings that refer to nothing, such as missing, unreadable or unsuitable files.
const std::vector<std::string> kWrong = {"",
                                         " ",
                                         "nope",
                                         "nope/",
                                         "folder",
                                         "text.txt",
                                         "text.txt/x",
                                         "damaged.safetensors",
                                         "/proc/self/mem",
                                         "pipe",
                                         "[",
                                         "a\\tb",
                                         "(?<",
                                         "{",
                                         "a\nb",
                                         "a\x1b[1m",
                                         std::string("a\0b", 3),
                                         "${missing}",
                                         "hf:nobody/nothing",
                                         "hf:///",
                                         "~nobody/x",
                                         "*",
                                         "-",
                                         "..",
                                         std::string(300, 'a'),
                                         std::string(5000, 'a')};

/// The stages around the tested ones, and the options that their kinds require.
struct Surroundings {
  std::string others;
  Json needs = Json::object();
};

const char* const kOfTrainings =
    "data: {kind: data.image_folder, root: photos, image_size: 32, caption: 'a {name}', split: "
    "{train: 0.5, validation: 0.25, test: 0.25}}\n"
    "model: {kind: model.clip_vision, patch_size: 16, hidden_size: 16, num_hidden_layers: 1, "
    "num_attention_heads: 2, intermediate_size: 16}\n"
    "memory: {kind: memory.policy}\n";
const char* const kOfPairs =
    "data: {kind: data.image_folder, root: photos, image_size: 32, caption: 'a {name}', split: "
    "{train: 0.5, validation: 0.25, test: 0.25}}\n"
    "model: {kind: model.clip, projection_dim: 8, image: {patch_size: 16, hidden_size: 16, "
    "num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}, text: {hidden_size: 16, "
    "num_hidden_layers: 1, "
    "num_attention_heads: 2, intermediate_size: 16}}\n"
    "memory: {kind: memory.policy}\n";
const char* const kOfEpisodes =
    "data: {kind: data.few_shot, root: photos, train: ., validation: ., test: ., classes: "
    "alternating, image_size: 32}\n"
    "model: {kind: model.few_shot_transformer, backbone: {kind: conv, channels: 4}, heads: 1, "
    "head_width: 4}\n"
    "memory: {kind: memory.policy}\n";

const char* const kOfLabels =
    "data: {kind: data.image_table, root: photos, table: photos/labels.csv, image: image, "
    "labels: {column: labels}, image_size: 32, split: {train: 0.5, validation: 0.25, test: "
    "0.25}}\n"
    "model: {kind: model.clip_vision, patch_size: 16, hidden_size: 16, num_hidden_layers: 1, "
    "num_attention_heads: 2, intermediate_size: 16}\n"
    "memory: {kind: memory.policy}\n";

const char* const kOfFeatures =
    "data: {kind: data.image_folder, root: photos, image_size: 32, split: {train: 0.5, validation: "
    "0.25, test: 0.25}}\n"
    "model: {kind: model.linear_probe, backbone: {kind: clip_vision, patch_size: 16, hidden_size: "
    "16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}}\n"
    "memory: {kind: memory.policy}\n"
    "features: {kind: data.features, inputs: {train: data.train, test: data.test, model: "
    "model.model, memory: memory.memory}}\n";

const char* const kOfTargets =
    "data: {kind: data.image_table, root: photos, table: photos/targets.csv, image: image, "
    "target: target, image_size: 32, split: {train: 0.5, validation: 0.25, test: 0.25}}\n"
    "model: {kind: model.clip_vision, patch_size: 16, hidden_size: 16, num_hidden_layers: 1, "
    "num_attention_heads: 2, intermediate_size: 16}\n"
    "memory: {kind: memory.policy}\n";

Json inputs_of_training() {
  return {{"train", "data.train"},
          {"validation", "data.validation"},
          {"model", "model.model"},
          {"memory", "memory.memory"}};
}

Surroundings surroundings_of(const std::string& kind) {
  const Json evaluation = {{"inputs", {{"test", "data.test"}, {"checkpoint", "train.checkpoint"}}}};
  if (kind == "data.image_table")
    return {"", {{"root", "photos"}, {"table", "list.csv"}, {"label", "name"}}};
  if (kind == "data.features") return {kOfTrainings, {{"inputs", inputs_of_training()}}};
  if (kind.starts_with("data.")) return {"", {{"root", "photos"}}};
  if (kind == "model.clip")
    return {"", {{"image", {{"num_hidden_layers", 1}}}, {"text", {{"num_hidden_layers", 1}}}}};
  if (kind == "train.supervised")
    return {kOfTrainings, {{"inputs", inputs_of_training()}, {"batch_size", 4}}};
  if (kind == "train.multi_label")
    return {kOfLabels, {{"inputs", inputs_of_training()}, {"batch_size", 4}}};
  if (kind == "evaluate.multi_label")
    return {std::string(kOfLabels) + "train: {kind: train.multi_label, batch_size: 4}\n",
            evaluation};
  if (kind == "train.regression")
    return {kOfTargets, {{"inputs", inputs_of_training()}, {"batch_size", 4}}};
  if (kind == "evaluate.regression")
    return {std::string(kOfTargets) + "train: {kind: train.regression, batch_size: 4}\n",
            evaluation};
  if (kind == "train.binary")
    return {kOfTrainings,
            {{"inputs", inputs_of_training()}, {"batch_size", 4}, {"classes", {0, 1}}}};
  if (kind == "train.contrastive")
    return {kOfPairs, {{"inputs", inputs_of_training()}, {"batch_size", 4}, {"monitor", "loss"}}};
  if (kind == "train.episodic")
    return {kOfEpisodes,
            {{"inputs", inputs_of_training()}, {"ways", 2}, {"shots", 1}, {"queries", 1}}};
  if (kind == "evaluate.episodic")
    return {
        std::string(kOfEpisodes) + "train: {kind: train.episodic, ways: 2, shots: 1, queries: 1}\n",
        evaluation};
  if (kind == "evaluate.pairwise_ensemble")
    return {
        std::string(kOfTrainings) + "train: {kind: train.binary, batch_size: 4, classes: [0, 1]}\n",
        evaluation};
  if (kind == "evaluate.prototypes")
    return {kOfFeatures,
            {{"inputs", {{"test", "features.test"}}}, {"ways", 2}, {"shots", 1}, {"queries", 1}}};
  if (kind == "evaluate.retrieval" || kind == "evaluate.zero_shot")
    return {
        std::string(kOfPairs) + "train: {kind: train.contrastive, batch_size: 4, monitor: loss}\n",
        evaluation};
  if (kind.starts_with("evaluate."))
    return {std::string(kOfTrainings) + "train: {kind: train.supervised, batch_size: 4}\n",
            evaluation};
  return {};
}

/// A JSON pointer to an option that accepts a string, and the settings that it depends on: the kind
/// of the mapping that contains it.
struct TextOption {
  std::string pointer;
  Json around = Json::object();
};

/// Collects the string options of a schema printed by `retort schema`.
class TextOptions {
 public:
  explicit TextOptions(const Json& document) : document_(document) {
    see(document, "", Json::object());
  }
  const std::vector<TextOption>& found() const { return found_; }

 private:
  static bool takes_text(const Json& schema) {
    if (schema.value("type", Json()) == "string") return true;
    const Json values = schema.value("enum", Json::array());
    return std::ranges::any_of(values, [](const Json& one) { return one.is_string(); });
  }

  void see(const Json& schema, const std::string& pointer, const Json& around) {
    if (!schema.is_object()) return;
    if (const auto reference = schema.find("$ref"); reference != schema.end()) {
      const std::string name = reference->get<std::string>();
      return see(document_.at(Json::json_pointer(name.substr(1))), pointer, around);
    }
    if (takes_text(schema) && seen_.insert(pointer).second) found_.push_back({pointer, around});
    for (const char* group : {"anyOf", "oneOf", "allOf"}) {
      for (const Json& part : schema.value(group, Json::array())) {
        const std::string kind = chosen(part);
        Json with = around;
        if (!kind.empty()) with[pointer + "/kind"] = kind;
        see(part.contains("then") ? part["then"] : part, pointer, with);
      }
    }
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [key, property] : properties.items()) {
      if (key != "kind" && key != "inputs" && key != "foreach")
        see(property, pointer + "/" + key, around);
    }
    if (const auto items = schema.find("items"); items != schema.end() && !items->is_array())
      see(*items, pointer + "/0", around);
  }

  /// The kind for which "then" applies.
  static std::string chosen(const Json& part) {
    const Json::json_pointer kind("/if/properties/kind/const");
    return part.contains("then") && part.contains(kind) ? part.at(kind).get<std::string>() : "";
  }

  const Json& document_;
  std::set<std::string> seen_;
  std::vector<TextOption> found_;
};

class WrongValues : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    ASSERT_EQ(retort("data make image_folder --out photos --classes 8 --per-class 6 --size 16 -q",
                     folder_.path())
                  .exit,
              0);
    write_label_table(folder_ / "photos");
    write_target_table(folder_ / "photos");
    std::filesystem::create_directory(folder_ / "folder");
    folder_.write("text.txt", "a text\n");
    folder_.write("damaged.safetensors", "\x08");
    folder_.write("list.csv", "image_path,name\n");
    ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    folder_.keep();
  }

  /// The diagnostics of `verb` on a recipe with these stages, as JSON.
  Json told(const std::string& verb, const std::string& stages) {
    folder_.write("r.yaml", "schema: 1\nthreads: 1\n" + stages);
    const Ended ended = run_shell(
        "timeout 100 " RETORT_BINARY_DIR "/bin/retort " + verb + " r.yaml --json", folder_.path());
    EXPECT_NE(ended.exit, 124) << "a hang" << stages;
    EXPECT_NE(ended.exit, 70) << ended.err << stages;
    EXPECT_LT(ended.exit, 128) << ended.err << stages;
    EXPECT_THAT(ended.err, Not(HasSubstr("please report")));
    const Json document = Json::parse(ended.out, nullptr, false);
    EXPECT_FALSE(document.is_discarded()) << ended.out << ended.err;
    return document.is_object() ? document.value("errors", Json::array()) : Json::array();
  }

  SharedFolder folder_;
};

bool is_reported(const Json& errors, const std::string& stage) {
  return std::ranges::any_of(errors, [&](const Json& error) {
    const std::string pointer = error.value("pointer", "");
    return pointer == "/" + stage || pointer.starts_with("/" + stage + "/");
  });
}

class WrongOptionValues : public WrongValues, public testing::WithParamInterface<std::string> {
 protected:
  std::vector<Wrong> wrong_stages(const Json& needs) {
    const Ended printed = retort("schema " + kind(), folder_.path());
    const Json document = Json::parse(printed.out, nullptr, false);
    std::vector<Wrong> stages;
    if (document.is_discarded()) {
      ADD_FAILURE() << printed.err;
      return {};
    }
    const TextOptions options(document);
    for (const TextOption& option : options.found()) {
      for (const std::string& value : kWrong) {
        Json stage = {{"kind", kind()}};
        stage.update(needs);
        for (const auto& [pointer, choice] : option.around.items())
          stage[Json::json_pointer(pointer)] = choice;
        stage[Json::json_pointer(option.pointer)] = value;
        const std::string name = "s" + std::to_string(stages.size());
        stages.push_back({name, name + ": " + stage.dump() + "\n"});
      }
    }
    return stages;
  }
  static const std::string& kind() { return GetParam(); }
};

/// Stages that validate or plan rejects are removed and the rest is checked again, until no errors
/// are left.
TEST_P(WrongOptionValues, StringOptionsDoNotCauseInternalErrors) {
  const Surroundings around = surroundings_of(kind());
  std::vector<Wrong> stages = wrong_stages(around.needs);
  const std::size_t all = stages.size();
  for (const char* verb : {"validate", "plan"}) {
    for (;;) {
      std::string text = around.others;
      for (const Wrong& one : stages) text += one.text;
      const Json errors = stages.empty() ? Json::array() : told(verb, text);
      for (const Json& error : errors) {
        EXPECT_FALSE(error.value("pointer", "").empty() && error.value("line", Json()).is_null())
            << error.dump();
        EXPECT_FALSE(error.value("code", "").starts_with("E09")) << error.dump();
        EXPECT_NE(error.value("code", ""), "E0708") << error.dump();
        EXPECT_NE(error.value("code", ""), "E0701") << error.dump();
      }
      const std::size_t before = stages.size();
      std::erase_if(stages, [&](const Wrong& one) { return is_reported(errors, one.stage); });
      if (stages.size() == before) {
        EXPECT_TRUE(errors.empty()) << errors.dump(2);
        break;
      }
    }
  }
  // The remaining values are valid for some option: a part of a name, a string to print, a pattern
  // that matches nothing.
  EXPECT_LE(stages.size(), all / 2) << stages.front().text;
}

/// The kinds of all schemas.
std::vector<std::string> all_kinds() {
  std::vector<std::string> kinds;
  for (const std::string family : {"data", "evaluate", "memory", "model", "train"}) {
    for (const auto& file :
         std::filesystem::directory_iterator(RETORT_SOURCE_DIR "/schemas/" + family)) {
      const std::string name = file.path().filename().string();
      if (name.ends_with(".schema.json"))
        kinds.push_back(family + "." + name.substr(0, name.find('.')));
    }
  }
  std::ranges::sort(kinds);
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, WrongOptionValues, testing::ValuesIn(all_kinds()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST_F(WrongValues, PlanReportsAllErrorsThatRequireTheNetwork) {
  const Json errors = told(
      "plan",
      "data: {kind: data.image_folder, root: photos, image_size: 32}\n"
      "model: {kind: model.clip_vision, patch_size: 16, hidden_size: 16, num_hidden_layers: 1, "
      "num_attention_heads: 2, intermediate_size: 16}\n"
      "memory: {kind: memory.policy}\n"
      "train: {kind: train.supervised, batch_size: 4, warm_start: text.txt, class_weights: {oak: "
      "2, ash: 3}, parameter_groups: [{match: bakbone, frozen: true}, {match: heda, frozen: "
      "true}]}\n");
  std::set<std::string> pointers;
  for (const Json& error : errors) pointers.insert(error.value("pointer", ""));
  EXPECT_EQ(pointers,
            (std::set<std::string>{"/train/class_weights", "/train/parameter_groups/0/match",
                                   "/train/parameter_groups/1/match", "/train/warm_start"}))
      << errors.dump(2);
}

TEST_F(WrongValues, MissingWeightsAreAUserErrorWithReuse) {
  const Json errors =
      told("plan --reuse",
           "model: {kind: model.clip, weights: weights/clip-vit-base-patch32.safetensors}\n");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].value("code", ""), "E0621");
  EXPECT_EQ(errors[0].value("pointer", ""), "/model/weights");
}

}  // namespace
