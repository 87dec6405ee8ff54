#include "runner/parent/record/python_record.h"

#include <set>
#include <utility>

namespace runner {

std::map<std::string, std::string> python_copy_names(const PythonCode& code) {
  std::map<std::string, std::string> names;
  std::set<std::string> taken;
  for (const PythonFile& file : code.entries) {
    if (names.contains(file.path)) continue;
    const std::filesystem::path path = file.path;
    std::string name = path.filename();
    for (int number = 2; !taken.insert(name).second; ++number)
      name = path.stem().string() + "-" + std::to_string(number) + path.extension().string();
    names[file.path] = std::move(name);
  }
  return names;
}

nlohmann::ordered_json python_record(const PythonCode& code,
                                     const std::filesystem::path& interpreter,
                                     const nlohmann::ordered_json& installed) {
  const auto names = python_copy_names(code);
  auto entries = nlohmann::ordered_json::object();
  for (const PythonFile& file : code.entries)
    entries[file.pointer] = {
        {"file", file.path}, {"sha256", file.sha256}, {"copy", names.at(file.path)}};
  nlohmann::ordered_json record = {{"interpreter", interpreter.string()}};
  if (installed.is_object()) record.update(installed);
  record.update({{"entries", std::move(entries)}, {"trusted", code.files}});
  if (!code.folders.empty()) record["folders"] = code.folders;
  return record;
}

}  // namespace runner
