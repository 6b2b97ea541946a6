from hotel.seasons import is_high_season
from hotel.stays import is_occupied, nights

for day in [(6, 14), (6, 15), (9, 10), (9, 11)]:
    print("season", day, is_high_season(day))
for day in [(3, 1), (3, 4), (3, 5), (3, 6)]:
    print("stay", day, is_occupied(day, (3, 1), (3, 5)))
print("nights", nights([(3, day) for day in range(1, 10)], (3, 1), (3, 5)))
