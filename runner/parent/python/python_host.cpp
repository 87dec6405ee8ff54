#include "runner/parent/python/python_host.h"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace runner {
namespace {

constexpr const char* kInstallAll =
    "build it (`cmake --build build`) or install all of Retort together; without it, recipes "
    "cannot have Python code";

Diagnostic missing_part(const std::string& name, const std::string& where) {
  return {ErrorCode::kWorkerMissing, {}, "", "no file '" + name + "' in " + where, kInstallAll};
}

bool is_readable(const std::filesystem::path& file) { return access(file.c_str(), R_OK) == 0; }

}  // namespace

Result<PythonHost> find_python_host(const std::filesystem::path& own_executable) {
  const auto folder = own_executable.parent_path(), root = folder.parent_path();
  PythonHost host{.script = root / "share/retort/python_host/retort_host/__main__.py",
                  .library = {}};
  const std::array libraries = {folder / "libretort_worker.so", root / "lib/libretort_worker.so",
                                root / "lib/retort/libretort_worker.so"};
  Diagnostics missing;
  if (!is_readable(host.script))
    missing.push_back(missing_part("__main__.py", "'" + host.script.parent_path().string() + "'"));
  const auto library = std::ranges::find_if(libraries, is_readable);
  if (library != libraries.end()) host.library = *library;
  else
    missing.push_back(
        missing_part("libretort_worker.so", "'" + folder.string() + "', '" +
                                                libraries[1].parent_path().string() + "' or '" +
                                                libraries[2].parent_path().string() + "'"));
  if (!missing.empty()) return missing;
  return host;
}

}  // namespace runner
