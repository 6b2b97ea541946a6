from hotel.seasons import is_high_season
from hotel.stays import is_occupied, nights

print("season", *(is_high_season(day) for day in [(6, 15), (9, 10), (9, 11), (6, 14)]))
print("stay", *(is_occupied(day, (7, 30), (8, 2)) for day in [(8, 1), (8, 2), (7, 29)]))
print("nights", nights([(7, 30), (7, 31), (8, 1), (8, 2)], (7, 30), (8, 2)))
