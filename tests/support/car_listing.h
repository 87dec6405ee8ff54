#pragma once

#include <filesystem>
#include <string>

#include "tests/support/program.h"

/// Creates in `folder` what data=car_listing reads below its root ".": car_images and
/// data/image_labels_filtered.csv, as in the published training, with generated images; the classes
/// of `retort data make image_folder` are the makes.
inline Ended make_car_listing(const std::filesystem::path& folder, int classes, int per_class) {
  namespace fs = std::filesystem;
  Ended made = retort("data make image_folder --out drawn --classes " + std::to_string(classes) +
                          " --per-class " + std::to_string(per_class) + " --size 32 -q",
                      folder);
  if (made.exit != 0) return made;
  std::string table = "image_path,image_filename,make,model,year,index\n";
  fs::create_directories(folder / "car_images");
  fs::create_directories(folder / "data");
  int number = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "drawn")) {
    if (entry.path().extension() != ".jpg") continue;
    const std::string digits = std::to_string(1'000'000 + number).substr(1),
                      name = "car_" + digits + ".jpg";
    fs::rename(entry.path(), folder / "car_images" / name);
    table += "car_images/" + name + "," + name + "," +
             entry.path().parent_path().filename().string() + ",Saloon," +
             (number % 5 == 0 ? "" : "2015.0") + "," + std::to_string(number) + "\n";
    ++number;
  }
  std::ofstream(folder / "data/image_labels_filtered.csv") << table;
  return made;
}
