#pragma once

#include <filesystem>

#include "stages/data/made_images.h"

namespace stages {

/// Draw small sets of graded photographs of the retina into `folder`, `per_class` of each of the grades 0 to
/// `classes` - 1, of which there are at most five. The folder appears when it is complete, or not at all. They throw as
/// make_image_folder() does.

/// In the form of APTOS 2019: train.csv (id_code,diagnosis) and train_images/ID.png, in no order of grades.
void make_aptos_2019(const std::filesystem::path& folder, const MadeImages& images,
                     const MakeCallbacks& callbacks = {});

/// In the form of EyePACS, 2015: trainLabels.csv (image,level), train/17_left.jpeg, …, retinopathy_solution.csv
/// (image,level,Usage) and test/…, with about half of the patients each. Both eyes of most patients have one grade.
void make_eyepacs_2015(const std::filesystem::path& folder, const MadeImages& images,
                       const MakeCallbacks& callbacks = {});

/// {train,val,test}/{0..4}/00001.jpg: of each grade a fifth, or one at least, for validation and as many for the test.
void make_fundus_folders(const std::filesystem::path& folder, const MadeImages& images,
                         const MakeCallbacks& callbacks = {});

}  // namespace stages
