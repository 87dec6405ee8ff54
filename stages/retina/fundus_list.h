#pragma once

#include <cstdint>
#include <filesystem>

#include "runner/shared/error/result.h"
#include "stages/data/image_list.h"
#include "stages/retina/patient_names.h"

namespace stages {

/// How photographs of the retina and their grades lie in a folder.
enum class FundusLayout : std::uint8_t { kClassFolders, kAptos2019, kEyepacs2015 };

/// Grades are 0 (no retinopathy) to 4 (proliferative): the classes of every list here, whether a photograph has them
/// or not.
inline constexpr std::int64_t kGrades = 5;

/// Does `root` hold a test part whose grades are published with it? Of EyePACS alone: retinopathy_solution.csv.
bool has_published_test(const std::filesystem::path& root, FundusLayout layout);

/// Lists what `root` holds. kClassFolders: {train,val,test}/{0..4}/IMAGE, with the usual names of parts
/// (runner::part_of_folder()), or {0..4}/IMAGE, which is not `divided`; sorted bytewise. kAptos2019: train.csv, of
/// which id_code and diagnosis are read, and train_images/ID.png, in the order of the table; not divided. kEyepacs2015:
/// trainLabels.csv, of which `image` and `level` are read, and train/IMAGE.jpeg, not divided, and where
/// retinopathy_solution.csv is there, the same of test/IMAGE.jpeg as the test part. What belongs together is what
/// `names` says; where that is no patient, pictures of one grade alone. Everything wrong is reported at once, without a
/// place in the recipe and with files and lines: another grade, a photograph that is listed twice or is not there, a
/// patient of both tables of EyePACS, a table without rows. A name that takes too long is blamed on "/patient".
runner::Result<ImageList> list_fundus(const std::filesystem::path& root, FundusLayout layout, bool allow_outside,
                                      const PatientNames& names = PatientNames());

}  // namespace stages
