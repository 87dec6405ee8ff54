#include "runner/shared/disk/cache_folder.h"

#include <cstdlib>

namespace runner {

std::filesystem::path cache_folder() {
  namespace fs = std::filesystem;
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    const fs::path path = value ? value : "";
    return path.is_absolute() ? path : fs::path();
  };
  if (fs::path own = variable("RETORT_CACHE"); !own.empty()) return own;
  if (const fs::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / "retort";
  if (const fs::path home = variable("HOME"); !home.empty()) return home / ".cache/retort";
  return {};
}

}  // namespace runner
