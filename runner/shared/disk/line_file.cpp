#include "runner/shared/disk/line_file.h"

#include <fstream>

#include "runner/shared/disk/descriptor.h"

namespace runner {

NewFile rewritten(const std::filesystem::path& path,
                  const std::function<bool(const std::string& line)>& keep, Storage& storage) {
  std::ifstream old = open_regular(path);
  AtomicFile fresh(path, storage);
  for (std::string text; std::getline(old, text);)
    if (keep(text)) fresh.append(text + "\n");
  return fresh.commit_and_release();
}

}  // namespace runner
