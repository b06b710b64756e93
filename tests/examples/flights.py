"""Three days of invented flights, small enough to check by hand."""

from collections.abc import Mapping

DAYS = ("2013-01-01", "2013-01-02", "2013-01-03")
FLIGHTS = "year,month,day,dep_time,dep_delay,arr_delay,carrier,tailnum,origin,dest,time_hour\n"


def day(number: int) -> str:
    """Two flights of AA, one of them cancelled on the second day, and one of B6 that leaves in the rain."""
    cancelled = "NA,NA,NA" if number == 2 else "700,4,-2"
    return (
        FLIGHTS
        + f"2013,1,{number},600,2,10,AA,N1,JFK,MIA,2013-01-0{number}T11:00:00Z\n"
        + f"2013,1,{number},{cancelled},AA,N2,JFK,MIA,2013-01-0{number}T12:00:00Z\n"
        + f"2013,1,{number},2330,0,NA,B6,N9,LGA,XXX,2013-01-0{number + 1}T04:00:00Z\n"
    )


def files(prefix: str = "") -> Mapping[str, str]:
    """The workspace of the backfill, or the repository that holds it below a prefix."""
    weather = "".join(f"LGA,2013-01-0{number}T04:00:00Z,12.5,0.2\n" for number in (1, 2, 3, 4))
    made = {
        "raw/airlines.csv": "carrier,name\nAA,American\nB6,JetBlue\n",
        "raw/airports.csv": "faa,name\nMIA,Miami\n",
        "raw/planes.csv": "tailnum,seats\nN1,100\nN2,200\n",
        "raw/weather.csv": "origin,time_hour,wind_speed,precip\n" + weather,
        **{f"raw/flights/{name}.csv": day(number) for number, name in enumerate(DAYS, 1)},
    }
    return {f"{prefix}{path}": text for path, text in made.items()}
