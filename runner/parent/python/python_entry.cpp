#include "runner/parent/python/python_entry.h"

#include <algorithm>

namespace runner {
namespace {

constexpr std::string_view kEntryEnding = ".py";

/// True for Python names separated by dots. Python also accepts letters beyond ASCII.
bool are_dotted_names(std::string_view text) {
  bool begins = true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_letter = (byte | 0x20) - 'a' < 26u || c == '_' || byte >= 0x80;
    const bool is_digit = byte >= '0' && byte <= '9';
    if (c == '.' ? begins : !is_letter && (begins || !is_digit)) return false;
    begins = c == '.';
  }
  return !begins;
}

Diagnostic no_entry(const std::string& text, const std::string& why, const std::string& help) {
  return {
      ErrorCode::kBadPattern, {}, "", "'" + text + "' does not refer to Python code: " + why, help};
}

/// Returns the option at a path such as "towers/tokenizer/entry"; null if there is none.
const Value* option_below(const Value& options, std::string_view path) {
  const Value* value = &options;
  while (value && !path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    value = value->map() ? value->find(name) : nullptr;
  }
  return value;
}

}  // namespace

bool is_module_name(std::string_view text) { return are_dotted_names(text); }

Result<PythonEntry> python_entry(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0 || colon + 1 == text.size())
    return no_entry(text, "it does not have the form module:name or file.py:name",
                    "write timm:create_model, or my_net.py:make for a file");
  const std::string code = text.substr(0, colon);
  PythonEntry entry{.module = "", .file = "", .attribute = text.substr(colon + 1)};
  if (!are_dotted_names(entry.attribute))
    return no_entry(text, "'" + entry.attribute + "' is not a name in Python",
                    "write the name of a function or class, such as make");
  const bool is_file = code.ends_with(kEntryEnding) && code.size() > kEntryEnding.size();
  if (is_file) entry.file = code;
  else if (are_dotted_names(code)) entry.module = code;
  else
    return no_entry(text, "'" + code + "' is neither a module nor a file ending in .py",
                    "write a module such as timm.models, or a file such as nets/my_net.py");
  return entry;
}

std::vector<PlacedEntry> python_entries(const Graph& graph, const SchemaSet& schemas) {
  std::vector<PlacedEntry> entries;
  for (const Node& node : graph.nodes) {
    const Kind* const kind = schemas.kind(node.kind);
    for (const std::string& path : kind ? kind->python_entries : std::vector<std::string>()) {
      const Value* const option = option_below(node.options, path);
      if (!option || !option->text()) continue;
      const std::string pointer = node.pointer + "/" + path;
      const auto known = std::ranges::find_if(entries, [&](const PlacedEntry& one) {
        return one.pointer == pointer && one.text == *option->text();
      });
      if (known != entries.end()) known->nodes.push_back(node.id);
      else entries.push_back({*option->text(), pointer, option->where, {node.id}});
    }
  }
  return entries;
}

}  // namespace runner
