#include "runner/parent/compile/missing_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runner/parent/compile/option_walk.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/text/join.h"
#include "runner/shared/weights/weights_file.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Is = FileRule::Is;

/// Checks the files of one node.
class NamedFiles {
 public:
  NamedFiles(const Graph& graph, const Node& node) : folder_(graph.working_folder), node_(node) {}

  /// Checks the path in `option` against `rule`; returns what is wrong with it, or nullopt. If
  /// `option` is a list of paths, checks the first one that exists.
  std::optional<Diagnostic> fault(const FileRule& rule, const Value& option,
                                  const OptionMapping& mapping) const {
    std::vector<std::string> paths;
    if (option.reveal()) paths = {*option.reveal()};
    for (const Value& item : option.list() ? *option.list() : Value::List()) {
      if (item.reveal()) paths.push_back(*item.reveal());
    }
    if (paths.empty() || (!rule.unless.empty() && holds(rule.unless, mapping.look)))
      return std::nullopt;
    if (!rule.below.empty()) {
      const Value* const below = mapping.options.find(rule.below);
      const fs::path around = below && below->reveal() ? *below->reveal() : "";
      if (!is_folder(around)) return std::nullopt;  // reported at the option with the folder
      for (std::string& path : paths) path = (around / path).string();
    }
    const auto there =
        std::ranges::find_if(paths, [&](const std::string& path) { return exists(path); });
    try {
      check(rule, there == paths.end() ? paths : std::vector{*there});
    } catch (const StageError& error) {
      return Diagnostic{error.code, option.where, "", error.what(), error.help};
    }
    return std::nullopt;
  }

 private:
  fs::path full(const fs::path& path) const { return folder_ / path; }

  bool exists(const fs::path& path) const {
    std::error_code error;
    return fs::exists(full(path), error);
  }

  bool is_folder(const fs::path& path) const {
    std::error_code error;
    return fs::is_directory(full(path), error);
  }

  ErrorCode code(Is is) const {
    const bool is_data = family_of(node_.kind) == Family::kData;
    if (is_data && is == Is::kFolder) return ErrorCode::kMissingFolder;
    return is_data ? ErrorCode::kMissingAnnotations : ErrorCode::kMissingWeights;
  }

  void check(const FileRule& rule, const std::vector<std::string>& paths) const {
    const std::string& path = paths.front();
    const auto refuse = [&](const std::string& what) {
      throw StageError(code(rule.is), what).with_help(rule.help);
    };
    fs::path file = full(path);
    if (rule.is == Is::kWeights) file = find_weights(is_hub_reference(path) ? path : file.string());
    else if (!exists(path))
      refuse("there is no " + in_words(rule.is) + " '" + join(paths, "', nor '") + "'");
    std::error_code error;
    const bool is_folder = fs::is_directory(file, error);
    if (is_folder && rule.is == Is::kFile) refuse("'" + path + "' is a folder, not a file");
    if (!is_folder && rule.is == Is::kFolder) refuse("'" + path + "' is not a folder");
    if (!is_folder && !fs::is_regular_file(file, error))
      refuse("'" + path + "' is neither a file nor a folder");
    if (::access(file.c_str(), is_folder ? R_OK | X_OK : R_OK) != 0)
      refuse("cannot read '" + path + "': " + std::strerror(errno));
  }

  static std::string in_words(Is is) {
    switch (is) {
      case Is::kFolder:
        return "folder";
      case Is::kFileOrFolder:
        return "file or folder";
      case Is::kFile:
      case Is::kWeights:
        return "file";
    }
    return "";
  }

  const fs::path folder_;
  const Node& node_;
};

}  // namespace

Diagnostics missing_files(const Graph& graph, const SchemaSet& schemas) {
  Diagnostics errors;
  std::set<std::string> seen;  // nodes of one foreach have the same options
  visit_options(graph, schemas, [&](const OptionMapping& mapping) {
    for (const NamedSchema& property : mapping.schema.properties) {
      const Value* const option = mapping.options.find(property.name);
      const FileRule* const rule = file_rule_of(*property.schema);
      if (!rule || !option) continue;
      auto fault = NamedFiles(graph, mapping.node).fault(*rule, *option, mapping);
      if (!fault) continue;
      fault->pointer = pointer_to(mapping.pointer, property.name);
      if (seen.insert(fault->pointer + fault->message).second) errors.push_back(*std::move(fault));
    }
  });
  return errors;
}

}  // namespace runner
