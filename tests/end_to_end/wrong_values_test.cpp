// Every string option of every schema with a wrong value: none ends as an error of Retort's own,
// and each names its place. The values that text does not tell apart are tried in one process, a
// stage for each.

#include <algorithm>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

/// A stage with an option that is wrong.
struct Wrong {
  std::string stage;    ///< its name in the recipe
  std::string pointer;  ///< where the mistake is
  std::string text;     ///< the stage, as YAML in one line
};

/// Texts that are no name of anything: of nothing, of what cannot be read as a file, of another
/// kind.
const std::vector<std::string> kWrong = {"nope",
                                         "nope/",
                                         "folder",
                                         "text.txt",
                                         "damaged.safetensors",
                                         "/proc/self/mem",
                                         "[",
                                         "a\\tb",
                                         "hf:nobody/nothing",
                                         "hf:///",
                                         "(?<",
                                         "{",
                                         "${missing"};

/// Kinds that stand alone, with what they need, and the paths of their string options.
struct Alone {
  std::string kind, needs;
  std::vector<std::string> options;
};
const std::vector<Alone> kAlone = {
    {"data.image_folder", "root: photos", {"root", "caption"}},
    {"data.flowers102", "root: photos", {"root", "caption"}},
    {"data.cub200", "root: photos", {"root", "caption"}},
    {"data.stanford_cars", "root: photos", {"root", "caption"}},
    {"data.fundus", "root: photos", {"root", "patient"}},
    {"data.few_shot", "root: photos", {"root", "train", "validation", "test"}},
    {"data.image_table",
     "root: photos, table: list.csv, label: name",
     {"root", "table", "image", "label", "caption", "part"}},
    {"model.clip",
     "image: {num_hidden_layers: 1}, text: {num_hidden_layers: 1}",
     {"weights", "tokenizer/merges", "tokenizer/vocabulary", "adapters/targets", "adapters/exclude",
      "adapters/layers_pattern", "adapters/adapter"}},
    {"model.cnn", "", {"weights"}},
    {"model.se_resnext", "", {"weights"}},
    {"model.lora",
     "backbone: {num_hidden_layers: 1}",
     {"targets", "exclude", "layers_pattern", "adapter", "backbone/weights"}},
    {"model.linear_probe", "backbone: {kind: vit, num_hidden_layers: 1}", {"backbone/weights"}},
    {"model.cross_transformer", "backbone: {kind: resnet, depth: 12}", {"backbone/weights"}},
    {"memory.policy", "", {"budget"}},
};

/// The options "{a: {b: VALUE}}" for "a/b", added to what the kind needs.
std::string with_option(const std::string& needs, const std::string& path,
                        const std::string& value) {
  const std::size_t slash = path.find('/');
  const std::string quoted = Json(value).dump();
  if (slash == path.npos) return (needs.empty() ? "" : needs + ", ") + path + ": " + quoted;
  const std::string outer = path.substr(0, slash), inner = path.substr(slash + 1) + ": " + quoted;
  const std::size_t known = needs.find(outer + ": {");
  if (known == needs.npos) return (needs.empty() ? "" : needs + ", ") + outer + ": {" + inner + "}";
  std::string all = needs;
  return all.insert(known + outer.size() + 3, inner + ", ");
}

std::string without_option(std::string needs, const std::string& option) {
  const std::size_t at = needs.find(option + ": ");
  if (at == needs.npos || option.find('/') != option.npos) return needs;
  const std::size_t end = needs.find(", ", at);
  return end == needs.npos ? needs.substr(0, at >= 2 ? at - 2 : 0) : needs.erase(at, end + 2 - at);
}

class WrongValues : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(retort("data make image_folder --out photos --classes 3 --per-class 6 --size 16 -q",
                     folder_.path())
                  .exit,
              0);
    std::filesystem::create_directory(folder_ / "folder");
    folder_.write("text.txt", "a text\n");
    folder_.write("damaged.safetensors", "\x08");
    folder_.write("list.csv", "image_path,name\n");
  }

  /// The diagnostics of `verb` on a recipe of these stages, as JSON.
  Json told(const std::string& verb, const std::string& stages) {
    folder_.write("r.yaml", "schema: 1\nthreads: 1\n" + stages);
    const Ended ended = retort(verb + " r.yaml --json", folder_.path());
    EXPECT_NE(ended.exit, 70) << ended.err << stages;
    EXPECT_LT(ended.exit, 128) << ended.err << stages;
    EXPECT_THAT(ended.err, Not(HasSubstr("please report")));
    const Json document = Json::parse(ended.out, nullptr, false);
    EXPECT_FALSE(document.is_discarded()) << ended.out << ended.err;
    return document.is_object() ? document.value("errors", Json::array()) : Json::array();
  }

  TemporaryFolder folder_;
};

bool is_reported(const Json& errors, const std::string& stage) {
  return std::ranges::any_of(errors, [&](const Json& error) {
    const std::string pointer = error.value("pointer", "");
    return pointer == "/" + stage || pointer.starts_with("/" + stage + "/");
  });
}

/// What validate refuses is left out of the recipe that a worker gets, until all that is left is
/// for the worker.
TEST_F(WrongValues, NoStringOptionEndsAsAnErrorOfOurOwn) {
  std::vector<Wrong> stages;
  for (const Alone& alone : kAlone) {
    for (const std::string& option : alone.options) {
      for (const std::string& value : kWrong) {
        const std::string name = "s" + std::to_string(stages.size());
        stages.push_back({name, "/" + name + "/" + option,
                          name + ": {kind: " + alone.kind + ", " +
                              with_option(without_option(alone.needs, option), option, value) +
                              "}\n"});
      }
    }
  }
  std::size_t of_text = 0, of_worker = 0;
  for (const char* verb : {"validate", "plan"}) {
    for (;;) {
      std::string text;
      for (const Wrong& one : stages) text += one.text;
      const Json errors = told(verb, text);
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
      (std::string(verb) == "plan" ? of_worker : of_text) += before - stages.size();
    }
  }
  EXPECT_GE(of_text, 150u);
  EXPECT_GE(of_worker, 20u);
}

TEST_F(WrongValues, WhatOnlyTheNetworkTellsIsSaidByPlanAllOfItAtOnce) {
  const Json errors = told(
      "plan",
      "data: {kind: data.image_folder, root: photos, image_size: 32}\n"
      "model: {kind: model.clip_vision, patch_size: 16, hidden_size: 16, num_hidden_layers: 1, "
      "num_attention_heads: 2, intermediate_size: 16}\n"
      "memory: {kind: memory.policy}\n"
      "train: {kind: train.supervised, batch_size: 4, warm_start: text.txt, class_weights: {oak: "
      "2, "
      "ash: 3}, parameter_groups: [{match: bakbone, frozen: true}, {match: heda, frozen: "
      "true}]}\n");
  std::set<std::string> pointers;
  for (const Json& error : errors) pointers.insert(error.value("pointer", ""));
  EXPECT_EQ(pointers,
            (std::set<std::string>{"/train/class_weights", "/train/parameter_groups/0/match",
                                   "/train/parameter_groups/1/match", "/train/warm_start"}))
      << errors.dump(2);
}

TEST_F(WrongValues, MissingWeightsAreTheUsersMatterWhereResultsAreReused) {
  const Json errors =
      told("plan --reuse",
           "model: {kind: model.clip, weights: weights/clip-vit-base-patch32.safetensors}\n");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].value("code", ""), "E0621");
  EXPECT_EQ(errors[0].value("pointer", ""), "/model/weights");
}

}  // namespace
