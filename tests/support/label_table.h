#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

/// Writes labels.csv for the class folders in `root`: each image has its class as a label, and
/// every second one also "second". Returns the number of images.
inline std::size_t write_label_table(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> images;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.path().extension() == ".jpg") images.push_back(entry.path());
  std::ranges::sort(images);
  std::ofstream table(root / "labels.csv");
  table << "image,labels\n";
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::filesystem::path image = images[i].lexically_relative(root);
    table << image.string() << ',' << image.parent_path().filename().string()
          << (i % 2 == 1 ? "|second" : "") << '\n';
  }
  return images.size();
}
