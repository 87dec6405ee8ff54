#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

/// Writes targets.csv for the images below `root`: each has a number that depends on its class
/// folder and its place in it, as "target", and another one as "other".
inline void write_target_table(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> images;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.path().extension() == ".jpg") images.push_back(entry.path());
  std::ranges::sort(images);
  std::ofstream table(root / "targets.csv");
  table << "image,target,other\n";
  double folders = 0;
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (i > 0 && images[i].parent_path() != images[i - 1].parent_path()) ++folders;
    table << images[i].lexically_relative(root).string() << ','
          << 100 + 10 * folders + 0.5 * (i % 3) << ',' << i << '\n';
  }
}
