#pragma once

#include <cstdint>
#include <filesystem>

#include "stages/data/image.h"
#include "stages/data/image_dataset.h"
#include "stages/data/shapes.h"
#include "stages/random/random.h"

namespace stages {

/// A drawn photograph of a retina, `size` x `size`: a round orange-red ground on black, with the
/// optic disc, the macula and vessels, and the lesions of `grade`, 0 to 4: none; microaneurysms;
/// these, haemorrhages and exudates; many of them in all quadrants and cotton wool spots; new
/// vessels and bleeding before the retina. Light, colours, place and side of the eye are drawn from
/// `random` alike for all grades, so the mean colour does not tell them apart. It looks enough like
/// one to test programs; it teaches nothing about patients.
Image draw_retina(std::int64_t grade, int size, Random random);

/// Draw small sets of graded photographs of the retina into `folder`, `per_class` of each of the
/// grades 0 to `classes` - 1, of which there are at most five. The folder appears when it is
/// complete, or not at all. They throw as make_image_folder() does.

/// In the form of APTOS 2019: train.csv (id_code,diagnosis) and train_images/ID.png, in no order of
/// grades.
void make_aptos_2019(const std::filesystem::path& folder, const MadeImages& images,
                     const MakeCallbacks& callbacks = {});

/// In the form of EyePACS, 2015: trainLabels.csv (image,level), train/17_left.jpeg, …,
/// retinopathy_solution.csv (image,level,Usage) and test/…, with about half of the patients each.
/// Both eyes of most patients have one grade.
void make_eyepacs_2015(const std::filesystem::path& folder, const MadeImages& images,
                       const MakeCallbacks& callbacks = {});

/// {train,val,test}/{0..4}/00001.jpg: of each grade a fifth, or one at least, for validation and as
/// many for the test.
void make_fundus_folders(const std::filesystem::path& folder, const MadeImages& images,
                         const MakeCallbacks& callbacks = {});

/// Does `image` look like a photograph of a retina: is what is bright in it orange-red, and a disc,
/// perhaps cut off at two sides, on black? A rough test, at 96 x 96 places whatever the picture's
/// size. Of 593 photographs of a hospital's screening it took all for retinas, of 300 of flowers
/// two. It takes a photograph that is cropped to the inside of the disc for another thing, so it is
/// good for a warning and for nothing else.
bool looks_like_retina(const Image& image);

/// What data.fundus has images of.
extern const ImageSubject kRetina;

}  // namespace stages
