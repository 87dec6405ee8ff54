#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/graph/python_code.h"

namespace runner {

/// Maps the path of each Python file named by an entry to the name of its copy in the record.
std::map<std::string, std::string> python_copy_names(const PythonCode& code);

/// Returns {"interpreter", "version", "packages": {name: version}, "entries": {"/model/entry":
/// {"file", "sha256", "copy"}}, "trusted": {file: sha256}, "folders": module search path}.
/// `installed` has "version" and "packages"; null if not known.
nlohmann::ordered_json python_record(const PythonCode& code,
                                     const std::filesystem::path& interpreter,
                                     const nlohmann::ordered_json& installed);

}  // namespace runner
