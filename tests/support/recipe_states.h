#pragma once

// Searches for states of recipes that violate a condition of a schema, by setting the options that
// the condition reads.

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/compile/option_walk.h"
#include "runner/parent/schema/schema_node.h"

namespace runner {

using Words = std::vector<std::string>;

inline std::string dotted(std::span<const std::string> path) {
  std::string text;
  for (const std::string& part : path) text += (text.empty() ? "" : ".") + part;
  return text;
}

/// Some values for the location of `schema`, as overrides write them, valid or not.
inline Words values_of(const SchemaNode& schema, int depth = 0) {
  const SchemaNode& node = followed(schema);
  Words values;
  if (node.allowed) {
    for (const Value& one : *node.allowed) {
      if (const std::string* text = one.text()) values.push_back(*text);
    }
  }
  for (const auto* parts : {&node.any_of, &node.one_of}) {
    for (const SchemaNode* part : *parts)
      std::ranges::copy(values_of(*part, depth), std::back_inserter(values));
  }
  const auto add = [&](unsigned type, const Words& words) {
    if (node.types & type) std::ranges::copy(words, std::back_inserter(values));
  };
  add(kBooleanType, {"true", "false"});
  add(kIntegerType | kNumberType, {"1", "0", "2", "32"});
  add(kNumberType, {"0.1"});
  if (!node.allowed) add(kStringType, {"x"});
  if ((node.types & kArrayType) && node.items && depth < 2) {
    for (const std::string& one : values_of(*node.items, depth + 1)) {
      values.push_back("[" + one + "]");
      values.push_back("[" + one + "," + one + "]");
    }
  }
  if (node.properties.empty()) add(kObjectType, {"{x: 1}"});
  for (const NamedSchema& property : node.properties) {
    if (depth > 1) break;
    const Words inner = values_of(*property.schema, depth + 1);
    if (!inner.empty()) values.push_back("{" + property.name + ": " + inner.front() + "}");
  }
  return values;
}

/// The kind with its required options: "{kind: step, step_size: 1}".
inline std::string chosen_kind(const KindSchema& kind) {
  std::string text = "{kind: " + kind.name;
  for (const std::string& name : kind.schema().required) {
    const Words values = values_of(*kind.schema().property(name));
    text += ", " + name + ": " + (values.empty() ? "x" : values.front());
  }
  return text + "}";
}

/// A recipe with a stage of the kind, named after its family.
inline std::string recipe_with(const Kind& kind) {
  static const std::string kImages = "data: {kind: data.cub200, root: x, caption: 'a {name}'}\n";
  static const std::string kMemory = "memory: {kind: memory.policy}\n";
  static const std::string kSupervised = kImages + "model: {kind: model.clip_vision}\n" + kMemory;
  static const std::string kPairs = kImages + "model: {kind: model.clip}\n" + kMemory;
  static const std::string kContrast = kPairs + "train: {kind: train.contrastive, monitor: loss}\n";
  static const std::string kFewShot =
      "data: {kind: data.few_shot, root: x}\nmodel: {kind: model.cross_transformer}\n" + kMemory;
  static const std::string kEpisodes = kFewShot + "train: {kind: train.episodic}\n";
  static const std::string kBinary = kImages + "model: {kind: model.cnn}\n" + kMemory +
                                     "train: {kind: train.binary, classes: [0, 1]}\n";
  static const std::string kLabels =
      "data: {kind: data.image_table, root: x, table: t, labels: {column: l}}\n"
      "model: {kind: model.clip_vision}\n" +
      kMemory + "train: {kind: train.multi_label}\n";
  static const std::string kTargets =
      "data: {kind: data.image_table, root: x, table: t, target: age}\n"
      "model: {kind: model.clip_vision}\n" +
      kMemory + "train: {kind: train.regression}\n";
  static const std::string kPython =
      kSupervised + "train: {kind: train.python, entry: 'a.py:b', coupling: per_sample}\n";
  static const std::map<std::string, std::string> kOfKinds = {
      {"model.python", kImages + "model: {kind: model.python, entry: 'timm:create_model'}\n" +
                           kMemory + "train: {kind: train.supervised}\n"},
      {"data.image_table", "data: {kind: data.image_table, root: x, table: t, label: l}\n"},
      {"data.python", "data: {kind: data.python, entry: 'my_data.py:make', split: {}}\n"},
      {"data.features", kImages + "model: {kind: model.linear_probe}\n" + kMemory +
                            "features: {kind: data.features}\n"},
      {"memory.policy", kEpisodes},
      {"train.python", kPython},
      {"train.supervised", kSupervised + "train: {kind: train.supervised}\n"},
      {"train.multi_label", kLabels},
      {"evaluate.multi_label", kLabels + "evaluate: {kind: evaluate.multi_label}\n"},
      {"train.regression", kTargets},
      {"evaluate.regression", kTargets + "evaluate: {kind: evaluate.regression}\n"},
      {"train.binary", kBinary},
      {"train.contrastive", kContrast},
      {"train.logistic_regression",
       kImages + "model: {kind: model.linear_probe}\n" + kMemory +
           "features: {kind: data.features}\ntrain: {kind: train.logistic_regression, inputs: "
           "{train: features.train, validation: features.validation}}\n"},
      {"train.none",
       kImages + "model: {kind: model.full}\n" + kMemory + "train: {kind: train.none}\n"},
      {"train.soup", kImages + "model: {kind: model.full}\n" + kMemory +
                         "train: {kind: train.soup, runs: [a, b]}\n"},
      {"train.episodic", kEpisodes},
      {"evaluate.classification", kSupervised + "train: {kind: train.supervised}\nevaluate: {kind: "
                                                "evaluate.classification}\n"},
      {"evaluate.python", kPython + "evaluate: {kind: evaluate.python, entry: 'a.py:b'}\n"},
      {"evaluate.grading",
       kSupervised + "train: {kind: train.supervised}\nevaluate: {kind: evaluate.grading}\n"},
      {"evaluate.episodic", kEpisodes + "evaluate: {kind: evaluate.episodic}\n"},
      {"evaluate.pairwise_ensemble", kBinary + "evaluate: {kind: evaluate.pairwise_ensemble}\n"},
      {"evaluate.prototypes",
       kImages + "model: {kind: model.linear_probe}\n" + kMemory +
           "features: {kind: data.features}\nevaluate: {kind: evaluate.prototypes, inputs: {test: "
           "features.test}}\n"},
      {"evaluate.retrieval", kContrast + "evaluate: {kind: evaluate.retrieval}\n"},
      {"evaluate.zero_shot", kContrast + "evaluate: {kind: evaluate.zero_shot}\n"},
  };
  const auto known = kOfKinds.find(kind.name);
  if (known != kOfKinds.end()) return known->second;
  if (kind.family == "data") return "data: {kind: " + kind.name + ", root: x}\n";
  return kind.family + ": {kind: " + kind.name + "}\n";
}

/// Recipes with a kind: that of recipe_with(), and another if the kind works with two types of
/// models.
inline Words recipes_with(const Kind& kind) {
  Words recipes = {recipe_with(kind)};
  if (kind.name == "train.contrastive" || kind.name == "model.python")
    recipes.emplace_back(
        "data: {kind: data.cub200, root: x, caption: 'a {name}'}\n"
        "model: {kind: model.python, entry: 'a.py:b', towers: {}}\n"
        "memory: {kind: memory.policy}\ntrain: {kind: train.contrastive, monitor: loss}\n");
  return recipes;
}

/// The recipe keys that a condition of the mapping at a path reads; an input is followed to the
/// stage that is wired to it.
inline Words looked_at(const std::string& condition, const std::vector<std::string>& mapping_path,
                       const Graph& graph) {
  static const std::regex kName("'[^']*'|[a-z_][A-Za-z0-9_.]*"), kItem(R"(\.\d+$)");
  static const std::set<std::string> kWords = {"and",   "or",   "not",   "null",   "true",
                                               "false", "size", "least", "is_text"};
  Words found;
  for (std::sregex_iterator at(condition.begin(), condition.end(), kName), end; at != end; ++at) {
    std::string name = std::regex_replace(at->str(), kItem, "");
    if (name.starts_with('\'') || kWords.contains(name)) continue;
    std::vector<std::string> mapping = mapping_path;
    for (; name.starts_with("parent."); mapping.pop_back()) name.erase(0, 7);
    if (name.starts_with(kInputsPrefix)) {
      const auto node = std::ranges::find(graph.nodes, mapping.front(), &Node::stage);
      const WiredOption wired =
          node == graph.nodes.end() ? WiredOption() : wired_option(graph, *node, name);
      if (!wired.node || wired.option.empty() || wired.option == "kind") continue;
      found.push_back(wired.node->stage + "." + wired.option);
    } else if (!name.starts_with("outputs.")) {
      found.push_back(dotted(mapping) + "." + name);
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

/// Each of the names set to values that a condition may test, alone and in pairs; the first state
/// sets none.
inline std::vector<Words> states(const std::string& condition, const Words& names) {
  static const std::regex kText("'([^']*)'");
  Words values = {"null", "true", "false", "0", "1", "2", "x", "a.py:b", "auto", "{}"};
  for (std::sregex_iterator at(condition.begin(), condition.end(), kText), end; at != end; ++at)
    values.push_back((*at)[1]);
  std::vector<Words> alone, all = {{}};
  for (const std::string& name : names) {
    for (const std::string& value : values) alone.push_back({name + "=" + value});
  }
  all.insert(all.end(), alone.begin(), alone.end());
  for (const Words& one : alone) {
    for (const Words& other : alone) {
      if (one.front().substr(0, one.front().find('=')) <
          other.front().substr(0, other.front().find('=')))
        all.push_back({one.front(), other.front()});
    }
  }
  return all;
}

}  // namespace runner
