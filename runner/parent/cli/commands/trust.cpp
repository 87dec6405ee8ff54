#include <memory>
#include <system_error>
#include <variant>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/python/python_entry.h"
#include "runner/parent/python/trusted_code.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct TrustFlags {
  std::vector<std::string> words;
  bool list = false;
  bool remove = false;
};

/// The code named on the command line: a path or an installed module.
struct NamedCode {
  fs::path path;       ///< as typed; empty: a module
  std::string module;  ///< "timm"
};

Result<NamedCode> named_code(const std::string& word) {
  std::error_code error;
  std::string code = with_home(word);
  if (!fs::exists(code, error)) {
    if (const auto entry = python_entry(code); entry)  // my_net.py:make, as written in a recipe
      code = entry->file.empty() ? entry->module : entry->file;
  }
  const bool is_path = code.find('/') != code.npos || code.ends_with(".py");
  if (is_path || fs::exists(code, error)) return NamedCode{.path = code, .module = ""};
  if (is_module_name(code)) return NamedCode{.path = "", .module = code.substr(0, code.find('.'))};
  return Diagnostic{ErrorCode::kUsage,
                    {},
                    "",
                    "'" + word + "' is neither a file or folder nor a module name",
                    "give a file, a folder of Python files, or a module such as timm"};
}

/// The code that is now trusted, or no longer trusted, as lines and as JSON.
struct TrustReport {
  Json files = Json::array(), modules = Json::array();
  std::vector<std::string> lines = {};
};

Diagnostic nothing_there(const std::string& message, const std::string& help) {
  return {ErrorCode::kMissingFile, {}, "", message, help};
}

std::string file_count(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " file" : " files");
}

/// Trusts a file, or all Python files in a folder.
Diagnostics trust_path(const fs::path& path, TrustedCode& code, TrustReport& report) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const std::vector<fs::path> files =
      is_folder ? python_files_below(path) : std::vector<fs::path>{path};
  if (files.empty())
    return {nothing_there("'" + path.string() + "' contains no Python files",
                          "give a file, or a folder of files ending in .py")};
  for (const fs::path& one : files) {
    auto file = read_code(one);
    if (!file)
      return {nothing_there("'" + one.string() + "' does not exist or cannot be read",
                            "correct the path; relative paths start at the working directory")};
    report.files.push_back({{"path", file->real.string()}, {"sha256", file->sha256}});
    code.trust(file->real, std::move(file->sha256));
  }
  report.lines.push_back("trusted '" + path.string() + "'" +
                         (is_folder ? ": " + file_count(files.size()) : ""));
  return {};
}

Diagnostic not_trusted(const std::string& what) {
  return nothing_there(what + " was not trusted", "`retort trust --list` shows what is trusted");
}

/// Stops trusting a file, or all files in a folder, even if they no longer exist. Returns false if
/// none of them was trusted.
bool forget_path(const fs::path& path, TrustedCode& code, TrustReport& report) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path), error);
  const std::vector<std::string> forgotten = code.forget(real);
  for (const std::string& file : forgotten) report.files.push_back({{"path", file}});
  if (!forgotten.empty())
    report.lines.push_back("no longer trusted: '" + path.string() + "'" +
                           (forgotten.size() > 1 ? ", " + file_count(forgotten.size()) : ""));
  return !forgotten.empty();
}

Diagnostics forget(const std::string& word, TrustedCode& code, TrustReport& report) {
  if (forget_path(with_home(word), code, report)) return {};
  const auto named = named_code(word);
  if (!named) return named.errors();
  const std::string& module = named->module;
  if (module.empty()) {
    if (forget_path(named->path, code, report)) return {};
    return {not_trusted("'" + word + "'")};
  }
  if (!code.forget_module(module)) return {not_trusted("the module '" + module + "'")};
  report.modules.push_back(module);
  report.lines.push_back("no longer trusted: the module '" + module + "'");
  return {};
}

Diagnostics trust(const std::string& word, TrustedCode& code, TrustReport& report) {
  const auto named = named_code(word);
  if (!named) return named.errors();
  if (named->module.empty()) return trust_path(named->path, code, report);
  code.trust_module(named->module);
  report.modules.push_back(named->module);
  report.lines.push_back("trusted the module '" + named->module + "'");
  return {};
}

ExitCode show_report(const std::string& action, const TrustReport& report, Console& console) {
  if (console.json)
    print_result(console, "trust/1",
                 {{"action", action}, {"files", report.files}, {"modules", report.modules}});
  else if (!console.is_quiet()) {
    for (const std::string& line : report.lines) console.out << printable(line) << '\n';
  }
  return ExitCode::kDone;
}

ExitCode list_trusted(const TrustedCode& code, Console& console) {
  TrustReport all;
  for (const auto& [path, sha256] : code.files()) {
    const auto file = read_code(path);
    const std::string state = !file ? "missing" : file->sha256 == sha256 ? "trusted" : "changed";
    all.files.push_back({{"path", path}, {"sha256", sha256}, {"state", state}});
    all.lines.push_back(path + (state == "trusted" ? "" : "  (" + state + ")"));
  }
  for (const std::string& name : code.modules()) {
    all.modules.push_back(name);
    all.lines.push_back(name + "  (module)");
  }
  return show_report("list", all, console);
}

ExitCode change_trust(const TrustFlags& flags, Console& console) {
  if (flags.list != flags.words.empty())
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             flags.list ? "--list takes no files or modules"
                                        : "no file, folder or module given",
                             "retort trust my_net.py, or retort trust --list"}});
  auto code = TrustedCode::read();
  if (!code) return report(console, code.errors());
  if (flags.list) return list_trusted(*code, console);
  TrustReport changed;
  Diagnostics errors;
  for (const std::string& word : flags.words) {
    const Diagnostics found =
        flags.remove ? forget(word, *code, changed) : trust(word, *code, changed);
    errors.insert(errors.end(), found.begin(), found.end());
  }
  if (!errors.empty()) return report(console, errors);
  try {
    code->save();
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
  return show_report(flags.remove ? "remove" : "trust", changed, console);
}

Invocation declare_trust() {
  const auto flags = std::make_shared<TrustFlags>();
  Invocation verb;
  verb.add({.name = "code",
            .value = &flags->words,
            .summary = "Files, folders of Python files, and names of installed modules"});
  verb.add({.name = "--list",
            .value = &flags->list,
            .summary = "Show what is trusted, and what has changed since it was trusted"});
  verb.add({.name = "--remove",
            .value = &flags->remove,
            .summary = "Stop trusting these files, folders and modules",
            .excludes = "--list"});
  verb.run = [flags](Console& console) { return change_trust(*flags, console); };
  return verb;
}

}  // namespace

const Command kTrustCommand = {"trust",
                               "Allows a recipe's Python code to run on this machine until the "
                               "code changes; such code can do anything that you can do.",
                               "retort trust my_net.py", declare_trust};

}  // namespace runner
