// Advice must work. For every rule of every schema: in a recipe that breaks it, each setting that
// the help suggests changes the result. Every option and flag that the programs' texts name exists.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "runner/parent/cli/prepare.h"
#include "tests/support/recipe_states.h"

namespace runner {
namespace {

constexpr std::size_t kMostStates = 200;  // variants of a recipe that are searched for one that
                                          // breaks a rule

/// A rule of a schema, and the location of its mapping in a recipe.
struct PlacedRule {
  std::vector<std::string> path;
  const Rule* rule = nullptr;
  Words kinds = {};  ///< overrides that choose the kinds of the mappings around it
};

void collect_rules(const SchemaNode& schema, const PlacedRule& at, std::vector<PlacedRule>& found) {
  const SchemaNode& node = followed(schema);
  for (const Rule& rule : node.rules) found.push_back({at.path, &rule, at.kinds});
  for (const auto* parts : {&node.all_of, &node.any_of, &node.one_of}) {
    for (const SchemaNode* part : *parts) collect_rules(*part, at, found);
  }
  if (node.kinds_in && *node.kinds_in != "*") {
    for (const KindSchema& kind : node.kinds) {
      PlacedRule below = at;
      below.kinds.push_back(dotted(at.path) + "=" + chosen_kind(kind));
      collect_rules(kind.schema(), below, found);
    }
  }
  for (const NamedSchema& property : node.properties) {
    PlacedRule below = at;
    below.path.push_back(property.name);
    collect_rules(*property.schema, below, found);
  }
}

/// The settings that a help text suggests: for each alternative, the pairs "key: value" in it.
std::vector<Words> advice_of(const std::string& help) {
  static const std::regex kSetting(
      R"(([a-z_]+(?:\.[a-z_]+)*)(?:: |=)('[^']*'|"[^"]*"|-?[0-9.]*[0-9]|[a-z_][a-z_0-9]*))");
  std::vector<Words> alternatives;
  std::size_t start = 0;
  for (;;) {
    const std::size_t end = help.find(" or ", start);
    const std::string one = help.substr(start, end == help.npos ? help.npos : end - start);
    Words settings;
    for (std::sregex_iterator at(one.begin(), one.end(), kSetting), none; at != none; ++at)
      if ((*at)[1] != "them")
        settings.push_back((*at)[1].str() + "=" + (*at)[2].str());  // "one of them: …" is prose
    if (!settings.empty()) alternatives.push_back(settings);
    if (end == help.npos) return alternatives;
    start = end + 4;
  }
}

std::set<std::string> messages_of(const std::string& recipe, const Words& overrides) {
  Sources sources;
  const auto prepared = prepare_text("schema: 1\n" + recipe, overrides, shipped_schemas(), sources);
  std::set<std::string> messages;
  for (const Diagnostic& error : prepared ? prepared->broken_rules : prepared.errors())
    messages.insert(error.message);
  return messages;
}

bool has_rule(const std::set<std::string>& messages, const Rule& rule) {
  const std::string begin = rule.message.substr(0, rule.message.find('{'));
  return std::ranges::any_of(
      messages, [&](const std::string& message) { return message.starts_with(begin); });
}

/// True if the settings, written at some level from the rule's mapping outward, fix the recipe and
/// break no other rule.
bool leads_on(const std::string& recipe, const Words& state, const PlacedRule& placed,
              const Words& settings) {
  for (std::size_t depth = placed.path.size() + 1; depth-- > 0;) {
    const std::string prefix = dotted(std::span(placed.path).first(depth)) + (depth ? "." : "");
    Words overrides = state;
    for (const std::string& setting : settings) overrides.push_back(prefix + setting);
    if (messages_of(recipe, overrides).empty()) return true;
  }
  return false;
}

void expect_helps_lead_on(const std::string& recipe, const PlacedRule& placed, const Graph& graph,
                          std::size_t& followed) {
  const std::vector<Words> advice = advice_of(placed.rule->help);
  if (advice.empty()) return;
  std::string condition = placed.rule->condition;
  std::size_t tried = 0;
  for (const Words& state : states(condition, looked_at(condition, placed.path, graph))) {
    if (++tried > kMostStates) return;
    Words overrides = placed.kinds;
    overrides.insert(overrides.end(), state.begin(), state.end());
    const auto messages = messages_of(recipe, overrides);
    if (messages.size() != 1 || !has_rule(messages, *placed.rule)) continue;
    ++followed;
    for (const Words& settings : advice) {
      EXPECT_TRUE(leads_on(recipe, overrides, placed, settings))
          << recipe << "with " << testing::PrintToString(overrides) << ": " << *messages.begin()
          << "\nhelp: " << placed.rule->help
          << "\nwhich does not help: " << testing::PrintToString(settings);
    }
    return;
  }
}

TEST(ActionableHelp, HelpOfEveryRuleCanBeFollowed) {
  std::size_t followed = 0;
  for (const Kind& kind : shipped_schemas().kinds()) {
    const std::string recipe = recipe_with(kind);
    Sources sources;
    const auto prepared = prepare_text("schema: 1\n" + recipe, {}, shipped_schemas(), sources);
    ASSERT_TRUE(prepared) << recipe;
    std::vector<PlacedRule> rules;
    collect_rules(*shipped_schemas().node(kind.file),
                  {{kind.name == "data.features" ? "features" : kind.family}}, rules);
    for (const PlacedRule& placed : rules)
      expect_helps_lead_on(recipe, placed, prepared->graph, followed);
  }
  EXPECT_GE(followed, 30u);
}

/// True if a kind of the family, or the recipe itself, declares the path below it.
bool is_declared(const std::string& path) {
  std::vector<std::string> keys;
  for (std::size_t start = 0, end = 0; end != path.npos; start = end + 1) {
    end = path.find('.', start);
    keys.push_back(path.substr(start, end == path.npos ? path.npos : end - start));
  }
  std::vector<const SchemaNode*> at;
  for (const Kind& kind : shipped_schemas().kinds()) {
    if (kind.family == keys.front()) at.push_back(shipped_schemas().node(kind.file));
    if (kind.name == path) return true;  // the kind itself, not an option
  }
  const SchemaNode* const own =
      shipped_schemas().node("recipe.schema.json")->property(keys.front());
  if (own) at.push_back(own);
  for (std::size_t i = 1; i < keys.size(); ++i) {
    std::vector<const SchemaNode*> below, open = at;
    while (!open.empty()) {
      const SchemaNode& node = followed(*open.back());
      open.pop_back();
      if (const SchemaNode* property = node.property(keys[i])) below.push_back(property);
      if (const SchemaNode* property = node.common ? node.common->property(keys[i]) : nullptr)
        below.push_back(property);
      for (const KindSchema& kind :
           node.kinds_in&&* node.kinds_in != "*" ? node.kinds : std::vector<KindSchema>())
        open.push_back(&kind.schema());
      for (const auto* parts : {&node.all_of, &node.any_of, &node.one_of})
        open.insert(open.end(), parts->begin(), parts->end());
      if (node.items && std::ranges::all_of(keys[i], [](char c) { return c >= '0' && c <= '9'; }))
        below.push_back(node.items);
    }
    at = below;
  }
  return !at.empty();
}

/// The string literals of a source file; adjacent literals are joined.
std::vector<std::string> texts_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> texts;
  bool goes_on = false;  // only blanks since the last literal
  for (std::string line; std::getline(stream, line);) {
    for (std::size_t at = 0; at < line.size(); ++at) {
      if (line[at] != '"') {
        goes_on = goes_on && line[at] == ' ';
        continue;
      }
      std::string text;
      for (++at; at < line.size() && line[at] != '"'; ++at) {
        text += line[at];
        if (line[at] == '\\' && at + 1 < line.size()) text += line[++at];
      }
      if (goes_on) texts.back() += text;
      else texts.push_back(text);
      goes_on = true;
    }
  }
  return texts;
}

std::vector<std::filesystem::path> sources_of_programs() {
  std::vector<std::filesystem::path> files;
  for (const char* const half : {"runner", "stages"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(RETORT_SOURCE_DIR "/") + half)) {
      if (entry.path().extension() == ".cpp") files.push_back(entry.path());
    }
  }
  return files;
}

TEST(ActionableHelp, OptionsMentionedInMessagesAreDeclared) {
  static const std::regex kOption(
      R"((?:^|[^A-Za-z0-9_./-])((?:data|model|memory|train|evaluate|device|run|sweep)(?:\.[a-z_][a-z_0-9]*)+)(?:=|: |[^A-Za-z0-9_./(*]|$))");
  static const std::set<std::string> kFiles = {"jsonl", "json",        "yaml", "svg", "txt",
                                               "csv",   "log",         "md",   "png", "sh",
                                               "pt",    "safetensors", "pkl"};
  std::size_t seen = 0;
  for (const auto& file : sources_of_programs()) {
    if (file.filename() == "error_code.cpp" || file.filename() == "recipe_errors.cpp")
      continue;  // these contain examples of mistakes
    for (const std::string& text : texts_of(file)) {
      if (text.find('.') == text.npos || text.find_first_of(" =") == text.npos)
        continue;  // a name, not a sentence
      for (std::sregex_iterator at(text.begin(), text.end(), kOption), end; at != end; ++at) {
        const std::string path = (*at)[1];
        if (kFiles.contains(path.substr(path.rfind('.') + 1))) continue;
        ++seen;
        EXPECT_TRUE(is_declared(path)) << file << ": '" << path << "' in \"" << text << '"';
      }
    }
  }
  EXPECT_GE(seen, 50u);
}

}  // namespace
}  // namespace runner
