#include "runner/parent/cli/completion/file_completion.h"

#include <functional>

namespace runner {
namespace {

Candidates complete(const FileSystem& files, std::string_view typed,
                    const std::function<bool(std::string_view)>& fits) {
  const std::size_t slash = typed.rfind('/');
  const std::string folder(slash == typed.npos ? "" : typed.substr(0, slash + 1));
  const std::string_view start = typed.substr(folder.size());
  Candidates found;
  for (const std::string& name : files.list(folder.empty() ? "." : folder)) {
    if (!name.starts_with(start) || (name.starts_with('.') && start.empty())) continue;
    if (files.is_folder(folder + name)) found.push_back({folder + name + '/'});
    else if (fits(name)) found.push_back({folder + name});
  }
  return found;
}

}  // namespace

Candidates complete_path(const FileSystem& files, std::string_view typed, std::string_view ending) {
  return complete(files, typed, [ending](std::string_view name) { return name.ends_with(ending); });
}

Candidates complete_folder(const FileSystem& files, std::string_view typed) {
  return complete(files, typed, [](std::string_view) { return false; });
}

}  // namespace runner
