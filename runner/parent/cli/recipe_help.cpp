#include "runner/parent/cli/recipe_help.h"

#include <sstream>

#include "runner/shared/text/comment_header.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

constexpr std::size_t kWidth = 100;  // maximum columns in a line, unless a word is longer
constexpr std::size_t kNames = 24;   // columns of the names; longer ones have their own line

/// Returns "  name        words", wrapped to as many lines as needed.
std::string paragraph(const std::string& name, const std::vector<std::string>& words) {
  const std::string margin(kNames + 4, ' ');
  std::string text = "  " + name, line;
  if (columns(name) > kNames) text += '\n' + margin;
  else text += std::string(margin.size() - 2 - columns(name), ' ');
  for (const std::string& word : words) {
    if (!line.empty() && margin.size() + columns(line) + 1 + columns(word) > kWidth) {
      text += line + '\n' + margin;
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return text + line + '\n';
}

std::vector<std::string> options(const Outline::Group& group, const Outline& outline) {
  std::vector<std::string> words = outline.options(group);
  for (std::string& word : words) {
    if (group.chosen == word) word += '*';
    if (&word != &words.back()) word += ',';
  }
  return words;
}

std::vector<std::string> meaning(const Alias& alias) {
  std::vector<std::string> words;
  if (!alias.instead.empty()) {
    words.push_back("not supported:");
    std::istringstream stream(printable(alias.instead));
    for (std::string word; stream >> word;) words.push_back(std::move(word));
    return words;
  }
  for (const auto& [value, overrides] : alias.cases) {
    words.push_back(value + ":");
    for (const std::string& override : overrides) words.push_back(override);
    if (overrides.empty()) words.push_back("nothing");
    words.back() += ',';
  }
  if (!alias.cases.empty() && !alias.targets.empty())
    words.insert(words.end(), {"any", "other", "value:"});
  for (const std::string& target : alias.targets) words.push_back(target + ",");
  if (!alias.of_list.empty()) words.insert(words.end(), {"a", "list:"});
  for (const std::string& part : alias.of_list) words.push_back(part);
  if (!alias.of_list.empty()) words.back() += ',';
  words.back().pop_back();
  return words;
}

/// Returns the headline and a table of the groups that are in a defaults list or, if `listed` is
/// false, those that are not.
std::string table_of_groups(const std::string& headline, bool listed, const Outline& outline) {
  std::string table;
  for (const Outline::Group& group : outline.groups()) {
    const bool has_options = !outline.options(group).empty();
    if (group.is_listed == listed && has_options)
      table += paragraph(group.key, options(group, outline));
  }
  return table.empty() ? "" : '\n' + headline + '\n' + table;
}

}  // namespace

std::string recipe_help(std::string_view file, std::string_view contents, const Outline& outline) {
  std::string text = "Recipe " + std::string(file) + '\n';
  for (const std::string& line : comment_header(contents))
    text += (line.empty() ? "" : "  " + printable(line)) + '\n';
  text += table_of_groups("Groups, GROUP=OPTION; * marks the chosen option:", true, outline);
  text += table_of_groups("Groups that can be added, +GROUP=OPTION:", false, outline);
  if (!outline.aliases().empty()) text += "\nAliases:\n";
  for (const Alias& alias : outline.aliases())
    text += paragraph(printable(alias.name), meaning(alias));
  return text;
}

}  // namespace runner
